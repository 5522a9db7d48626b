package usage

import (
	_ "embed" // the script
	"strings"
	"time"

	"github.com/foregate/foregate/internal/redis/script"
)

// keyUsage plus a UTC day such as 2026-11-23 is a hash. Its fields:
//
//	r|TENANT|ROUTE          the counts of processes that have settled
//	o|PROCESS|TENANT|ROUTE  what a running process has counted so far
//	p|PROCESS               the last sequence number of a process
//
// A tenant's name has no bar; a route's may. The keys have no TTL, because a full Redis evicts keys with a TTL first.
const keyUsage = "foregate:{fg}:usage:"

// Kinds of fields.
const (
	fieldSettled = "r"
	fieldOpen    = "o"
	fieldProcess = "p"
)

const (
	// MaxDays is for how many days usage is kept, and the longest time that a query may cover.
	MaxDays = 400
	// deletedDays is how many days before those are deleted, if no replica ran meanwhile.
	deletedDays = 400
	// maxFields bounds the fields of a hash, for reports; settlements may add as many again. It is about 5 MB.
	maxFields = 20_000
	// maxName bounds the name of a field, in bytes.
	maxName = 1 << 10
)

// The script uses one key.
var (
	//go:embed usage.lua
	source      string
	writeScript = script.New(source)
)

// Day is a day of the UTC calendar: the number of days after 1970-01-01.
type Day int

// DayOf is the UTC day of a time.
func DayOf(t time.Time) Day {
	const day = 24 * 60 * 60
	s := t.Unix()
	if s < 0 {
		s -= day - 1 // division rounds towards zero
	}
	return Day(s / day)
}

// Begin is the first moment of the day.
func (d Day) Begin() time.Time { return time.Unix(int64(d)*24*60*60, 0).UTC() }

// String is the day as 2026-11-23.
func (d Day) String() string { return d.Begin().Format(time.DateOnly) }

// key is the day's key.
func (d Day) key() string { return keyUsage + d.String() }

// rowKey identifies a row of a day.
type rowKey struct{ tenant, route string }

// name is the row in Redis.
func (k rowKey) name() string { return k.tenant + "|" + k.route }

// rowOf returns the row of a field, and false if the field is no row.
func rowOf(field string) (k rowKey, ok bool) {
	if len(field) > maxName {
		return rowKey{}, false
	}
	kind, name, _ := strings.Cut(field, "|")
	switch kind {
	case fieldSettled:
	case fieldOpen:
		if _, name, ok = strings.Cut(name, "|"); !ok {
			return rowKey{}, false
		}
	default:
		return rowKey{}, false
	}
	k.tenant, k.route, ok = strings.Cut(name, "|")
	return k, ok
}
