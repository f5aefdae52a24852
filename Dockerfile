# The catalog server as a container: `docker build -t headwater . && docker run -p 8080:8080 …`.
# docs/server.md says how to run it.

FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY storage storage
COPY catalog catalog
COPY client client
COPY server server
COPY spark spark
COPY cli cli
COPY migrations migrations
RUN python -m venv /opt/headwater \
    && /opt/headwater/bin/pip install --no-cache-dir --constraint constraints.txt --upgrade pip \
    && /opt/headwater/bin/pip install --no-cache-dir --constraint constraints.txt \
        --build-constraint constraints.txt ".[server,postgresql,mysql,s3]"

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /var/lib/headwater headwater
COPY --from=build /opt/headwater /opt/headwater
ENV PATH=/opt/headwater/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HEADWATER_HOST=0.0.0.0 \
    HEADWATER_PORT=8080 \
    HEADWATER_DATABASE_URL=sqlite:////var/lib/headwater/headwater.db \
    HEADWATER_WAREHOUSES=main=/var/lib/headwater/warehouse
USER headwater
WORKDIR /var/lib/headwater
VOLUME /var/lib/headwater
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['HEADWATER_PORT']}/healthz\", timeout=4)"]
# A token must be given, with --env HEADWATER_TOKENS=…: the server refuses to serve other machines
# without one.
ENTRYPOINT ["headwater"]
CMD ["serve"]
