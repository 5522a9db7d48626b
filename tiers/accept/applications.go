package accept

import (
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// fingerprint is the length of the name of an application by its prompt, and sketch how many of its digits are equal where
	// prompts are (package application).
	fingerprint, sketch = 16, 8
	// alike is how many digits of the sketches of two prompts are equal at least if one is taken for a change of the other. Of two
	// that have nothing in common so many are with a probability of 5e-5.
	alike = 5
	// Inherited is the share of its term that an application has at first if its prompt resembles another one's.
	Inherited = 0.75
)

// ApplicationKey returns the key of an application's name, tenant/name, in [ScoreMap.Applications]. It has 30 bytes at most.
func ApplicationKey(application string) string {
	tenant, name, _ := strings.Cut(application, "/")
	if len(name) != fingerprint {
		name = shortened(name)
	}
	return shortened(tenant) + "/" + name
}

func shortened(text string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // a hash never fails
	return strconv.FormatUint(h.Sum64(), 36)
}

// Resembled returns which of the keys is of the prompt of the same tenant that another key's resembles most; "" if none does.
func Resembled(key string, others []string) (most string) {
	best := alike - 1
	for _, other := range others {
		if n := equalDigits(key, other); n > best || n == best && most != "" && other < most {
			best, most = n, other
		}
	}
	return most
}

// equalDigits is how many digits of the sketches of two keys of one tenant are equal.
func equalDigits(a, b string) (n int) {
	tenant, one, _ := strings.Cut(a, "/")
	its, other, _ := strings.Cut(b, "/")
	if tenant != its || len(one) != fingerprint || len(other) != fingerprint {
		return 0
	}
	for i := range sketch {
		if one[i] == other[i] {
			n++
		}
	}
	return n
}

// For returns the score of an application's drafts. One that is not known, and whose prompt resembles that of another one,
// has a share of its term. The map is not changed.
func (m *ScoreMap) For(application string) *ScoreMap {
	key := ApplicationKey(application)
	term, known := m.Applications[key]
	if !known {
		term = Inherited * m.Applications[Resembled(key, slices.Collect(maps.Keys(m.Applications)))]
	}
	if term == 0 {
		return m
	}
	own := *m
	own.Bias += term
	return &own
}
