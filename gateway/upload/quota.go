package upload

// maxShareFactor is how many times the free rest a tenant may hold. If k tenants take as much as they can,
// each has 2/(2k+1) and 1/(2k+1) is free: two thirds and one third for one tenant, two fifths and one fifth
// for two. This is the dynamic threshold of shared-memory switches. A fixed share would give a lone tenant
// less, or leave nothing if several take theirs.
const maxShareFactor = 2

// quota is a countable resource that all tenants share.
type quota struct{ total, used int64 }

// verdict is the decision about a demand.
type verdict uint8

const (
	granted   verdict = iota
	overShare         // the tenant holds too much of what is left
	spent             // the other tenants do
)

// judge decides whether a tenant that holds held may take n more.
func (q quota) judge(inUse, n int64) verdict {
	left, others := q.total-q.used-n, q.used-inUse
	switch {
	case left >= 0 && (inUse == 0 || inUse+n <= maxShareFactor*left):
		return granted
	case inUse == 0 || others > inUse+n:
		return spent
	}
	return overShare
}
