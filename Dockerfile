# The catalog server as a container: `docker build -t headwater . && docker run -p 8080:8080 …`.
# docs/server.md says how to run it; deploy/rehearse runs these steps without a container engine.

FROM python:3.13-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY storage storage
COPY catalog catalog
COPY client client
COPY server server
COPY spark spark
COPY cdc cdc
COPY cli cli
COPY migrations migrations
RUN python -m venv /opt/headwater \
    && /opt/headwater/bin/pip install --no-cache-dir --constraint constraints.txt --upgrade pip \
    && /opt/headwater/bin/pip install --no-cache-dir --constraint constraints.txt \
        --build-constraint constraints.txt ".[server,postgresql,mysql,cdc,s3]" \
    && /opt/headwater/bin/pip uninstall --yes --quiet pip
# What a server has no use for: others' tests, and what only compilers read.
RUN find /opt/headwater -depth -type d \( -name tests -o -name include \) -exec rm -rf {} + \
    && find /opt/headwater -type f \
        \( -name '*.pxd' -o -name '*.pyx' -o -name '*.a' -o -name '*.h' \) -delete

FROM python:3.13-slim-bookworm
RUN useradd --uid 10001 --create-home --home-dir /var/lib/headwater headwater
COPY --from=build /opt/headwater /opt/headwater
ENV PATH=/opt/headwater/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HEADWATER_HOST=0.0.0.0 \
    HEADWATER_PORT=8080 \
    HEADWATER_REQUIRE_TOKEN=true \
    HEADWATER_DATABASE_URL=sqlite:////var/lib/headwater/headwater.db \
    HEADWATER_WAREHOUSES=main=/var/lib/headwater/warehouse
# By number: what runs it can see that this is not root.
USER 10001:10001
WORKDIR /var/lib/headwater
VOLUME /var/lib/headwater
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request; urllib.request.urlopen(f\"http://127.0.0.1:{os.environ['HEADWATER_PORT']}/healthz\", timeout=4)"]
# Nobody is let in without a token: make one with `docker exec … headwater token create NAME`, or
# give one with --env HEADWATER_TOKENS=….
ENTRYPOINT ["headwater"]
CMD ["serve"]
