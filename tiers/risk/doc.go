// Package risk holds the guarantee: of the drafts that are served without a check by the target, the target would have
// rejected at most a share ε, with probability 1 − δ throughout a lease, at every moment. It is arithmetic over the
// outcomes of audits, without clock or network. docs/measurements.md shows simulations,
// docs/science.md what is not guaranteed.
//
// Start at [State], the evidence for one traffic class. A request takes a [View] of it and derives the threshold for its
// draft's score, and whether the draft is audited ([View.Decide]). An audit is stored as bad when it begins
// ([State.Open]) and becomes good when the target accepts the draft ([State.Close]); a lost audit stays bad.
//
// # What is certified
//
// Scores are compared with a frozen [Grid] λ₁ > … > λ_J. Index 0 accepts nothing, index j accepts scores of λ_j or more.
// R(j) = P(bad | score ≥ λ_j) is the risk of index j. From n audits with a score of λ_j or more, k of them bad, [LogE]
// computes an e-value against R(j) ≥ ε: a bet that grows on average only if R(j) < ε. By Ville's inequality (1939) it
// ever reaches 1/δ while R(j) ≥ ε with probability δ at most.
//
// Each of the J indices is certified by itself, at δ/J (a union bound: "Learn then Test", Angelopoulos et al. 2021). So the
// middle of the grid, where most drafts are accepted, need not wait for the strict end, which has few audits. And the
// e-value grows with ε for the same counts, so "E_j reaches J/δ for some ε ≤ R(j)" is one event for each index: ε may be
// chosen and changed by looking at the evidence, any number of times.
//
// # How long it holds
//
// Evidence ages, so it is kept in epochs that live for Rule.LeaseAudits audits; a new one opens after half of that. The
// operating index is the largest that a living epoch has certified. Two epochs live at a time, so each has δ/2. A
// certificate is thus based on the last LeaseAudits audits; over many leases errors add up, δ/2 per epoch at most. A
// drift alarm, and evidence that nothing can be certified, start a new epoch, too.
//
// Epochs without a certificate are short, because half of all requests are audited then, and each is one more chance to
// err. The i-th in a row has δ/(2i²), so that a time without a certificate, however long, ends in a wrong one with
// probability 0.83 δ at most.
//
// The counts do not depend on the order of outcomes. Only the drift watch does.
//
// A large drift is found sooner by an e-CUSUM ([Drift]; Shin, Ramdas and Rinaldo 2024) over the audits of served drafts;
// an alarm ends all epochs.
//
// Sources: Waudby-Smith and Ramdas 2024 (betting); Ville 1939. See docs/science.md, "The guarantee".
package risk
