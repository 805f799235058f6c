# offhook in a container: `docker build -t offhook .`
#
# The image holds the three programs and what they call; configuration, keys and records come from outside. It runs
# without root, with a read-only root file system and without any capability: see docker-compose.yml.

FROM rust:1.91-slim-bookworm AS build
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libopus-dev pkg-config \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# What the program says of itself when it starts.
ARG COMMIT=unknown
RUN OFFHOOK_COMMIT="$COMMIT" cargo build --release --locked --bin offhook --bin aviation_atis --bin phonebook

FROM debian:bookworm-slim
# espeak-ng is the voice of what the engine says itself. For an attendant that listens as well:
#   --build-arg PROGRAMS="espeak-ng pocketsphinx pocketsphinx-en-us"
ARG PROGRAMS="espeak-ng"
# Versions are Debian's security updates of the day.
# hadolint ignore=DL3008,SC2086
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates libopus0 $PROGRAMS \
 && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log \
 && install -d -o 10001 -g 10001 -m 0700 /var/lib/offhook
COPY --from=build /src/target/release/offhook /src/target/release/aviation_atis /src/target/release/phonebook /usr/local/bin/
COPY deploy/healthy.sh /usr/local/bin/offhook-healthy
# A number, so that Kubernetes' runAsNonRoot can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/offhook
VOLUME /var/lib/offhook
# Alive, not ready: an engine whose provider is down is not to be killed for it.
HEALTHCHECK --interval=15s --timeout=5s --start-period=20s CMD ["offhook-healthy"]
ENTRYPOINT ["offhook"]
CMD ["run", "--log-format", "json", "--config", "/etc/offhook/offhook.yaml"]
