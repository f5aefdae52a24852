"""Topics of Kafka with Debezium's events: positions, messages, types, and rows of tables."""
