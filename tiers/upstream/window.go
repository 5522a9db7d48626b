package upstream

import (
	"context"
	"fmt"
	"time"

	"github.com/foregate/foregate/tiers/credentials"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/engine"
)

// cardWait bounds the wait for a model's card.
const cardWait = 2 * time.Second

// ContextWindow reads a model's context length, in tokens and above 0, from the model card at a backend's
// base URL. It shows the pool's credentials.
func (c *Client) ContextWindow(ctx context.Context, url, model string, own *credentials.Credentials) (int, error) {
	var body []byte
	a := engine.Attempt{Call: &engine.Ask{Path: dialect.ModelsPath, Into: &body}, URL: url, Credentials: own, FirstByteTimeout: cardWait}
	if err := c.ask(ctx, &a, a.Call); err != nil {
		return 0, fmt.Errorf("model card of %s: %w", url, err)
	}
	models, err := dialect.ParseModels(body)
	for _, m := range models {
		if m.ID == model && m.Window > 0 {
			return m.Window, nil
		}
	}
	return 0, fmt.Errorf("model card of %s: no context length of %s: %w", url, model, err)
}
