# Two images from one build:
#   docker build -t foregate .                      the gateway (the last stage is what is built by default)
#   docker build -t vllmsim --target vllmsim .      the simulator
# Both hold one static program and the certificates of authorities: no shell, no libc, nobody is root.
# Say what is built, as make release does:
#   --build-arg VERSION=$(git describe --tags --always --dirty) --build-arg REVISION=$(git rev-parse HEAD)

# The newest patch of the Go that go.mod asks for, because its libraries are linked in: raise it with each. go.mod
# itself asks for no patch, so that a machine without a network builds with the one it has; a binary for others is
# built with this one. foregate version says which it was.
ARG GO_IMAGE=golang:1.26.11-alpine

# Go compiles for other platforms itself, so that no build runs in emulation.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
ARG REVISION=unknown
# The flags are those of the Makefile. There is no .git here, so the version is told.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X main.stampedVersion=$VERSION -X main.stampedRevision=$REVISION" \
    -o /out/ ./cmd/foregate ./cmd/vllmsim

FROM scratch AS vllmsim
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vllmsim" \
      org.opencontainers.image.description="A vLLM server without a GPU, for trying Foregate and for tests." \
      org.opencontainers.image.source="https://github.com/foregate/foregate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /out/vllmsim /usr/local/bin/vllmsim
ENV PATH=/usr/local/bin
USER 65532:65532
EXPOSE 8000
ENTRYPOINT ["/usr/local/bin/vllmsim"]
CMD ["--listen=0.0.0.0:8000"]

FROM scratch AS foregate
ARG VERSION=dev
ARG REVISION=unknown
LABEL org.opencontainers.image.title="foregate" \
      org.opencontainers.image.description="An OpenAI-compatible gateway that answers from a cheap draft pool first." \
      org.opencontainers.image.source="https://github.com/foregate/foregate" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
# For rediss:// and https:// backends.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/foregate /usr/local/bin/foregate
COPY LICENSE /usr/share/doc/foregate/LICENSE
ENV PATH=/usr/local/bin
# A number, so that Kubernetes can see that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8080 9090
# SIGTERM drains: drain.delay and drain.grace of the configuration file. Give the container longer than both.
STOPSIGNAL SIGTERM
# Ready, not merely alive: Docker restarts nothing for this, it only tells. Where admin is not at
# 127.0.0.1:9090, FOREGATE_ADMIN says where. Kubernetes asks /livez and /readyz itself.
HEALTHCHECK --interval=5s --timeout=3s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/foregate", "ready"]
ENTRYPOINT ["/usr/local/bin/foregate"]
CMD ["serve", "--config=/etc/foregate/foregate.yaml"]
