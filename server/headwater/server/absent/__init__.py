"""What the API has and this server does not: partitions, branches, views, functions…"""
