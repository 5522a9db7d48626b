-- Counts a change of the settings in their marker, and makes the marker where there is none.
-- KEYS: settings, marker. ARGV: the id and the count of a new one. Without settings and without
-- a marker nothing is written: these may be the data of a Redis that has just come back empty.
local id = redis.call('HGET', KEYS[2], 'id')
local changes = redis.call('HGET', KEYS[2], 'changes')
if not id then
	if redis.call('HLEN', KEYS[1]) == 0 then
		return {'', '0'}
	end
	id, changes = ARGV[1], ARGV[2]
end
changes = string.format('%.0f', (tonumber(changes) or 0) + 1)
redis.call('HSET', KEYS[2], 'id', id, 'changes', changes)
return {id, changes}
