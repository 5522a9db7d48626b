// Package risk holds the guarantee: of the drafts that are served without a check by the target, the target would have
// rejected at most a share ε, with probability 1 − δ throughout a lease, at every moment. It is arithmetic over the
// outcomes of audits, without clock or network. docs/science.md, "The guarantee", has the statement, the proof, the sources and
// what is not guaranteed; docs/measurements.md shows simulations.
//
// Start at [State], the evidence for one traffic class. A request takes a [View] of it and derives the threshold for its
// draft's score, and whether the draft is audited ([View.Decide]). An audit is stored as bad when it begins
// ([State.Open]) and becomes good when the target accepts the draft ([State.Close]); a lost audit stays bad.
//
// Scores are compared with a frozen [Grid] λ₁ > … > λ_J. Index 0 accepts nothing, index j accepts scores of λ_j or more. From n
// audits with such a score, k of them bad, [LogE] computes an e-value against a risk of ε or more. Each index is certified by itself.
//
// Evidence ages, so it is kept in epochs that live for Rule.LeaseAudits audits; a new one opens after half of that. The
// operating index is the largest that a living epoch has certified. The counts do not depend on the order of outcomes; only the
// drift watch does ([Drift]), whose alarm ends all epochs.
package risk
