// Package proof measures what Foregate claims and writes the page that says so. A [Claim] names the figure that
// somebody published, and where the baseline's figure and Foregate's come from: runs of scenarios in virtual time, rows of the fault suite,
// rows of the benchmark of the gateway's own cost. [Claims] are all of them.
//
// [Run] measures claims, [Results] is what came of it as JSON, [Document.Markdown] is the page,
// [Document.Summary] is the README's table. A claim that does not hold stays on the page with what was reached.
package proof
