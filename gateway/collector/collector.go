// Package collector is what all exports to an OpenTelemetry collector share: the HTTP client, and what is told of the
// gateway.
package collector

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// TryTimeout bounds one try to send a message.
const TryTimeout = 5 * time.Second

// NewResource describes the gateway, with a version unless that is "". The environment (OTEL_RESOURCE_ATTRIBUTES) may add to
// it; an error says that it is malformed.
func NewResource(version string) (*resource.Resource, error) {
	about := []attribute.KeyValue{semconv.ServiceName("foregate")}
	if version != "" {
		about = append(about, semconv.ServiceVersion(version))
	}
	return resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(about...), resource.WithFromEnv())
}

// NewClient returns an HTTP client. Redirects are not followed, because they would get what is sent, and the headers with its
// key, too.
func NewClient() *http.Client {
	return &http.Client{
		Timeout:       TryTimeout,
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
