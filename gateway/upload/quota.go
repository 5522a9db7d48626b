package upload

// maxShareFactor is how many times what it leaves free a tenant may hold. Where k tenants take all that they can
// get, each has 2/(2k+1) and 1/(2k+1) is left: two thirds and one third for one, two fifths and one fifth for two.
// This is the dynamic threshold of shared-memory switches. A fixed share would give a lone tenant less,
// or leave nothing where several take theirs.
const maxShareFactor = 2

// quota is something countable that all tenants share.
type quota struct{ total, used int64 }

// verdict is what becomes of a demand.
type verdict uint8

const (
	granted   verdict = iota
	overShare         // the tenant holds too much for what is free
	spent             // others do
)

// judge decides whether a tenant that holds so much may take n more.
func (q quota) judge(held, n int64) verdict {
	left, others := q.total-q.used-n, q.used-held
	switch {
	case left >= 0 && (held == 0 || held+n <= maxShareFactor*left):
		return granted
	case held == 0 || others > held+n:
		return spent
	}
	return overShare
}
