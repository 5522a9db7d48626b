// Package helm holds the chart in deploy/helm and the manifests in deploy/kubernetes to what they
// promise, without a cluster: it renders the chart with Helm's own engine, decodes every document
// strictly into the types of Kubernetes, checks what no type can tell (that selectors find pods, that
// what is mounted exists, that grace periods are long enough), and gives what is rendered to the real
// programs.
package helm
