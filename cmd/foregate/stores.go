package main

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
	"github.com/foregate/foregate/internal/redis/connect"
	"github.com/foregate/foregate/internal/redis/embedded"
)

// stores are the connections to Redis that a configuration asks for, one for each use.
type stores struct {
	connect.Clients
	embedded *embedded.Server // behind both; nil for one that is elsewhere
	answers  answers
	writer   redis.UniversalClient // of operators who change settings
	name     string                // where the shared state is, without credentials
	files    passwords             // that connections show
}

// openStores connects to them; nothing is waited for. stop ends what was opened. An error is one
// of the configuration.
func openStores(r config.Redis) (s stores, stop func(), err error) {
	var opened []func()
	endAll := func() {
		for _, end := range slices.Backward(opened) {
			end()
		}
	}
	defer func() {
		if err != nil {
			endAll()
		}
	}()
	endpoint, err := r.Endpoint()
	if err != nil {
		return stores{}, nil, err
	}
	s.name = endpoint.String()
	if s.files, err = passwordsOf(r); err != nil {
		return stores{}, nil, err
	}
	var end func()
	if end, err = s.open(endpoint); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	if s.answers, end, err = openAnswers(r, s.files); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	if s.writer, end, err = openDesk(r, s.files, s.Control); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	return s, endAll, nil
}

// open connects to the Redis of coordination. The error is one of a file that the endpoint names.
func (s *stores) open(ep config.Endpoint) (stop func(), err error) {
	switch ep.Kind {
	case config.KindNone:
		return func() {}, nil
	case config.KindEmbedded:
		s.embedded = embedded.Open()
		s.Clients = connect.Clients{Control: s.embedded.Client, Request: s.embedded.Client}
		return s.embedded.Stop, nil
	}
	o, err := s.files.options(ep)
	if err != nil {
		return nil, err
	}
	s.Clients, stop = connect.Open(o)
	return stop, nil
}

// parts are those of a replica that are its stores.
func (s stores) parts() parts {
	return parts{redis: s.Control, lookups: s.Request, answers: s.answers, writer: s.writer, redisName: s.name, passwords: s.files}
}
