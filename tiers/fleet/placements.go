package fleet

import (
	"encoding/binary"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/foregate/foregate/tiers/prefix"
)

const (
	maxPlaced   = 512  // placements per pool and tick
	keptEntries = 8192 // of a pool's log, approximately
	readEntries = 256  // of a pool's log in one tick
	firstRead   = 64   // entries that a new replica reads
	// warmFor is the maximum age of an entry that is read: prefix.Table forgets at the same age.
	warmFor = 5 * time.Minute
	// maxPayload bounds the size of an entry: 512 placements on 512 backends.
	maxPayload = maxPlaced * (maxID + 2 + 8 + 3*binary.MaxVarintLen64)
	// slack is how many ms newer than the heartbeat an entry of the same round trip may be, with a safety
	// margin.
	slack    = 1000
	placedV1 = 1
)

var errNoPlacements = errors.New("no placements of version 1")

// encodePlacements encodes placements: version; number of backends, and each with its length; number of
// placements, and for each the backend's index, the key, tokens, own·2 + cold. Values out of range are left
// out.
func encodePlacements(placements []prefix.Placement) string {
	number := map[string]uint64{}
	var names, body []byte
	n := 0
	for _, p := range placements {
		if n == maxPlaced || !placeable(p) {
			continue
		}
		i, known := number[p.Backend]
		if !known {
			i = uint64(len(number))
			number[p.Backend] = i
			names = binary.AppendUvarint(names, uint64(len(p.Backend)))
			names = append(names, p.Backend...)
		}
		own := uint64(p.Own) << 1
		if p.Cold {
			own |= 1
		}
		body = binary.AppendUvarint(body, i)
		body = binary.LittleEndian.AppendUint64(body, uint64(p.Key))
		body = binary.AppendUvarint(binary.AppendUvarint(body, uint64(p.Tokens)), own)
		n++
	}
	if n == 0 {
		return ""
	}
	b := binary.AppendUvarint([]byte{placedV1}, uint64(len(number)))
	b = binary.AppendUvarint(append(b, names...), uint64(n))
	return string(append(b, body...))
}

func placeable(p prefix.Placement) bool {
	return p.Backend != "" && len(p.Backend) <= maxID && p.Own >= 0 && p.Own <= p.Tokens && p.Tokens <= math.MaxInt32
}

// decodePlacements appends decoded placements to into, all or none.
func decodePlacements(into []prefix.Placement, packed string) ([]prefix.Placement, error) {
	if len(packed) > maxPayload || packed == "" || packed[0] != placedV1 {
		return into, errNoPlacements
	}
	r := reader{b: packed[1:]}
	backends := make([]string, r.count())
	for i := range backends {
		backends[i] = r.name()
	}
	values := into
	for range r.count() {
		backend := r.uvarint()
		p := prefix.Placement{Key: prefix.Key(r.fixed()), Tokens: r.int(math.MaxInt32)}
		own := r.int(2*math.MaxInt32 + 1)
		p.Own, p.Cold = own>>1, own&1 == 1
		if backend >= uint64(len(backends)) {
			return into, errNoPlacements
		}
		p.Backend = backends[backend]
		r.bad = r.bad || !placeable(p)
		if r.bad {
			return into, errNoPlacements
		}
		values = append(values, p)
	}
	if r.bad || r.b != "" {
		return into, errNoPlacements
	}
	return values, nil
}

// reader decodes numbers. After the first error it returns zeros.
type reader struct {
	b   string
	bad bool
}

func (r *reader) take(n int) string {
	if r.bad || n > len(r.b) {
		r.bad = true
		return ""
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}

func (r *reader) uvarint() uint64 {
	var v uint64
	for shift := 0; shift < 64; shift += 7 {
		s := r.take(1)
		if r.bad {
			return 0
		}
		v |= uint64(s[0]&0x7f) << shift
		if s[0] < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

// int decodes a number up to a maximum.
func (r *reader) int(maxValue uint64) int {
	v := r.uvarint()
	if v > maxValue {
		r.bad = true
		return 0
	}
	return int(v)
}

// count decodes the number of following elements, of at least one byte each.
func (r *reader) count() int {
	n := r.int(maxPlaced)
	if n > len(r.b) {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) name() string {
	n := r.int(maxID)
	r.bad = r.bad || n == 0
	return strings.Clone(r.take(n))
}

func (r *reader) fixed() uint64 {
	s := r.take(8)
	if r.bad {
		return 0
	}
	return binary.LittleEndian.Uint64([]byte(s))
}

// entryID is the position of an entry in a log.
type entryID struct{ ms, n uint64 }

// parseID parses "1700000000000-0".
func parseID(id string) (entryID, bool) {
	ms, n, _ := strings.Cut(id, "-")
	a, err := strconv.ParseUint(ms, 10, 64)
	b, err2 := strconv.ParseUint(n, 10, 64)
	return entryID{a, b}, err == nil && err2 == nil
}

func (e entryID) String() string {
	return strconv.FormatUint(e.ms, 10) + "-" + strconv.FormatUint(e.n, 10)
}

func (e entryID) after(o entryID) bool { return e.ms > o.ms || e.ms == o.ms && e.n > o.n }
