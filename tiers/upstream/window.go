package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
)

const (
	cardWait = 2 * time.Second // for a model's card
	maxCard  = 1 << 20         // bytes of one
)

// ContextWindow reads a model's context length, in tokens and above 0, from the model card at a backend's
// base URL. It shows the pool's credentials.
func (c *Client) ContextWindow(ctx context.Context, url, model string, own *credentials.Credentials) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, cardWait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/models", nil)
	if err != nil {
		return 0, err
	}
	resp, err := c.transports.RoundTrip(req, own.OrNone())
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if refused := credentials.RefusedBy(resp.StatusCode); refused != nil {
		return 0, fmt.Errorf("model card of %s: %w", url, refused)
	}
	var cards struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxCard)).Decode(&cards); err != nil {
		return 0, fmt.Errorf("model card of %s: %w", url, err)
	}
	for _, capabilities := range cards.Data {
		if capabilities.ID == model && capabilities.MaxModelLen > 0 {
			return capabilities.MaxModelLen, nil
		}
	}
	return 0, fmt.Errorf("model card of %s: no context length of %s", url, model)
}
