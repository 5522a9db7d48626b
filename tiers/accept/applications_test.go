package accept

import "testing"

func TestAChangedPromptHasAShareOfTheTermOfTheOneThatItResembles(t *testing.T) {
	m := &ScoreMap{Applications: map[string]float64{
		ApplicationKey("acme/0123456789abcdef"): 2,
		ApplicationKey("acme/0123456fffffffff"): -1,
		ApplicationKey("acme/tickets"):          3,
	}}
	for name, want := range map[string]float64{
		"acme/0123456789abcdef": 2,
		"acme/0123056700000000": 2 * Inherited, // seven digits of the first sketch, and six of the second one
		"acme/0123456f00000000": -1 * Inherited,
		"acme/0123ffff00000000": -1 * Inherited,
		"acme/012fffff00000000": 0,
		"beta/0123456789abcdef": 0, // of another tenant
		"acme/tickets":          3,
		"acme/tickets2":         0,
	} {
		if got := m.For(name).Bias; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
