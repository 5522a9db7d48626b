package fleet

import (
	"fmt"
	"slices"
	"testing"
)

func TestFieldsAndValuesThatAreNoTextArePassedOver(t *testing.T) {
	told := []any{"a", "1", int64(2), "x", "b", int64(3), nil, nil, "c", "4", "without a value"}
	var got []string
	for field, value := range pairs(told) {
		got = append(got, fmt.Sprintf("%s=%s", field, value))
	}
	if !slices.Equal(got, []string{"a=1", "c=4"}) {
		t.Errorf("%q", got)
	}
}
