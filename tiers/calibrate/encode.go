package calibrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/foregate/foregate/tiers/accept"
)

const (
	// format is the version of the encoding.
	format = 1
	// maxBytes bounds an encoding; 50 points of a hundred bytes are a third of it.
	maxBytes = 16 << 10
	// maxBias keeps every score within the ±1e9 that stand for never and always.
	maxBias = 1e8
	// formerFeatures is how many features, the first ones, fits of former versions have. Their scores do not use the others.
	formerFeatures = 5
)

// encoded is a Fitted as JSON has it. Weights go by the names of their features, so that what was
// fitted to other features is refused and not taken for these.
type encoded struct {
	Format      int            `json:"format"`
	Version     int            `json:"version"`
	Bias        *float64       `json:"bias"`
	Weights     map[string]any `json:"weights"`
	Samples     int            `json:"samples"`
	Bad         int            `json:"bad"`
	Before      area           `json:"before"`
	After       area           `json:"after"`
	Gain        area           `json:"gain"`
	Loss        float64        `json:"loss"`
	ShareLoss   float64        `json:"share_loss"`
	Reliability []point        `json:"reliability"`
}

type area struct {
	Value float64 `json:"auroc"`
	Error float64 `json:"error"`
}

type point struct {
	Score    float64 `json:"score"`
	Expected float64 `json:"expected"`
	Good     float64 `json:"good"`
	N        int     `json:"n"`
}

// MarshalJSON encodes what [Parse] reads. It fails where Parse would.
func (f Fitted) MarshalJSON() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	e := encoded{
		Format: format, Version: f.Map.Version, Bias: &f.Map.Bias, Weights: map[string]any{}, Samples: f.N, Bad: f.Bad,
		Before: area(f.Before), After: area(f.After), Gain: area(f.Gain), Loss: f.Loss, ShareLoss: f.ShareLoss,
	}
	for i, name := range accept.FeatureNames {
		e.Weights[name] = f.Map.Weights[i]
	}
	for _, p := range f.Isotonic {
		e.Reliability = append(e.Reliability, point(p))
	}
	return json.Marshal(e)
}

// UnmarshalJSON is [Parse].
func (f *Fitted) UnmarshalJSON(data []byte) (err error) {
	*f, err = Parse(data)
	return err
}

// Parse reads what [Fitted.MarshalJSON] wrote, and nothing else: an unknown field or feature, one
// that is missing, a number that no fit comes to and what follows the end are errors.
func Parse(data []byte) (Fitted, error) {
	if len(data) > maxBytes {
		return Fitted{}, fmt.Errorf("calibrate: a fit of %d bytes, want %d at most", len(data), maxBytes)
	}
	var e encoded
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return Fitted{}, fmt.Errorf("calibrate: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Fitted{}, errors.New("calibrate: something follows the end of the fit")
	}
	f, err := e.decode()
	if err == nil {
		err = f.check()
	}
	if err != nil {
		return Fitted{}, fmt.Errorf("calibrate: %w", err)
	}
	return f, nil
}

func (e *encoded) decode() (Fitted, error) {
	switch {
	case e.Format != format:
		return Fitted{}, fmt.Errorf("a fit of format %d, want %d", e.Format, format)
	case e.Bias == nil:
		return Fitted{}, errors.New("a fit without a bias")
	case len(e.Weights) != features && len(e.Weights) != formerFeatures:
		return Fitted{}, fmt.Errorf("a fit of %d features, want %d", len(e.Weights), features)
	}
	f := Fitted{
		Map: accept.ScoreMap{Version: e.Version, Bias: *e.Bias}, N: e.Samples, Bad: e.Bad,
		Before: Area(e.Before), After: Area(e.After), Gain: Area(e.Gain), Loss: e.Loss, ShareLoss: e.ShareLoss,
	}
	for i, name := range accept.FeatureNames[:len(e.Weights)] {
		w, ok := e.Weights[name].(float64)
		if !ok {
			return Fitted{}, fmt.Errorf("a fit without a weight of %s", name)
		}
		f.Map.Weights[i] = w
	}
	for _, p := range e.Reliability {
		f.Isotonic = append(f.Isotonic, Point(p))
	}
	return f, nil
}

// check refuses what no fit comes to.
func (f *Fitted) check() error {
	if f.Map.Version < 0 || !within(f.Map.Bias, -maxBias, maxBias) {
		return fmt.Errorf("a map of version %d and bias %v", f.Map.Version, f.Map.Bias)
	}
	for i, w := range f.Map.Weights {
		if !within(w, 0, maxWeight) {
			return fmt.Errorf("the weight of %s is %v, want 0 to %v", accept.FeatureNames[i], w, maxWeight)
		}
	}
	if f.N < MinSamples || f.Bad < MinPerLabel || f.N-f.Bad < MinPerLabel {
		return &TooFewError{Good: f.N - f.Bad, Bad: f.Bad}
	}
	for _, a := range []Area{f.Before, f.After} {
		if !within(a.Value, 0, 1) || !within(a.Error, 0, 1) {
			return fmt.Errorf("an area of %v ± %v", a.Value, a.Error)
		}
	}
	if !within(f.Gain.Value, -1, 1) || !within(f.Gain.Error, 0, 1) {
		return fmt.Errorf("a gain of %v ± %v", f.Gain.Value, f.Gain.Error)
	}
	if !within(f.Loss, 0, never) || !within(f.ShareLoss, 0, 1) {
		return fmt.Errorf("losses of %v and %v", f.Loss, f.ShareLoss)
	}
	return f.checkPoints()
}

// never is beyond every score.
const never = 1e9

func (f *Fitted) checkPoints() error {
	if len(f.Isotonic) > maxPoints {
		return fmt.Errorf("%d points, want %d at most", len(f.Isotonic), maxPoints)
	}
	n, last := 0, Point{Score: -never}
	for i, p := range f.Isotonic {
		fine := p.N > 0 && p.N <= f.N-n && within(p.Score, last.Score, never) && within(p.Good, last.Good, 1) && within(p.Expected, 0, 1)
		if !fine {
			return fmt.Errorf("point %d is %+v after %+v", i, p, last)
		}
		n, last = n+p.N, p
	}
	if n != f.N {
		return fmt.Errorf("the points have %d drafts of %d", n, f.N)
	}
	return nil
}

// within reports whether v is a number from least to most.
func within(v, lo, hi float64) bool { return v >= lo && v <= hi }
