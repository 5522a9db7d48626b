// Package compose holds docker-compose.yml to its promises without Docker: its files are read by the
// library that Docker Compose itself reads them with, and its commands are run as processes on loopback.
package compose
