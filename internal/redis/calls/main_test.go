package calls_test

import (
	"testing"

	"github.com/foregate/foregate/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
