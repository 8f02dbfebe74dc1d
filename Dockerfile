# docker build -t punoise:0.1.0 .
FROM python:3.12-slim
LABEL org.opencontainers.image.version="0.1.0"
# workflow managers measure jobs by ps
RUN apt-get update && apt-get install -y --no-install-recommends procps && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,target=/src,rw pip install --no-cache-dir /src
CMD ["punoise", "--help"]
