// Package risk holds a promise: of the drafts that are served unverified, the share that the
// target would have refused is at most ε, with probability 1 − δ throughout a lease, however often
// one looks. It is arithmetic over the outcomes of audits; it knows neither clock nor network.
// What replays of it show, and what is not promised, is in README.md.
//
// Start at [State]: what audits have shown of one kind of request. A request takes a [View] of
// it, from which follow the threshold that its draft's score is held against and whether it is
// audited ([View.Decide]). An audit is booked as bad when it begins ([State.Open]) and made good
// when the target stands by the draft ([State.Close]); one that is lost stays bad.
//
// # What is certified
//
// Scores go through a frozen [Grid] λ₁ > … > λ_J. Index 0 accepts nothing, index j what scores
// λ_j or more. R(j) = P(bad | score ≥ λ_j) is the risk of index j. Of n audits with a score of λ_j
// or more, k of them bad, [LogE] makes an e-value against R(j) ≥ ε: a bet whose stake grows on
// average only if R(j) < ε. Ville's inequality (1939) bounds the chance that it ever reaches 1/δ
// while R(j) ≥ ε by δ, whenever one looks and however often.
//
// Indices are certified in order, the strictest first (fixed sequence testing: Bauer 1991;
// "Learn then Test", Angelopoulos et al. 2021). For any of them to be certified wrongly the first
// bad one must be, so the chance of that is δ for all of them together.
//
// # How long it holds
//
// Evidence ages, so it is kept in epochs that live for Rule.Lease audits, a new one from half of
// that on, and the operating index is the largest that a living epoch has certified. Two epochs
// live at a time, so each is run at δ/2. A certificate is thus of the last Lease audits; over many
// leases errors add up, δ/2 for each epoch at most. An alarm, and evidence that nothing can be
// certified, begin an epoch, too.
//
// Epochs that end without a certificate are short, for half of all requests are audited then, and
// each is one more chance to err: the i-th in a row is run at δ/(2i²), so that a time without a
// certificate, however long, ends in a wrong one with probability 0.83 δ at most.
//
// Any order of outcomes gives the same counts, so audits that have all begun certify the same in
// whichever order they end. The watch for drift alone depends on the order.
//
// A drift that is large is found sooner by an e-CUSUM ([Drift]; Shin, Ramdas and Rinaldo 2024) over
// the audits of served drafts, which ends all epochs.
//
// Sources: Waudby-Smith and Ramdas 2024 (betting); Ville 1939.
package risk
