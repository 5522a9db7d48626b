//go:build !race

package evidence

const racing = false
