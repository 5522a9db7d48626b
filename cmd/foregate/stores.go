package main

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/foregate/foregate/gateway/config"
)

// stores are the connections to Redis that a configuration asks for, one for each use.
type stores struct {
	clients
	answers answers
	writer  redis.UniversalClient // of operators who change settings
	name    string                // where the shared state is, without credentials
	files   passwords             // that connections show
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
	if s.clients, end, err = openRedis(endpoint, s.files); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	if s.answers, end, err = openAnswers(r, s.files); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	if s.writer, end, err = openDesk(r, s.files, s.control); err != nil {
		return stores{}, nil, err
	}
	opened = append(opened, end)
	return s, endAll, nil
}

// parts are those of a replica that are its stores.
func (s stores) parts() parts {
	return parts{redis: s.control, lookups: s.request, answers: s.answers, writer: s.writer, redisName: s.name, passwords: s.files}
}
