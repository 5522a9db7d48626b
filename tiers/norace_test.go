//go:build !race

package tiers

const raced = false
