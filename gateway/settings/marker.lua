-- Counts a change of the settings in their marker, and makes the marker where there is none.
-- KEYS: marker. ARGV: settings, the id and the count of a new marker. The settings are in the slot
-- of the marker, and not among KEYS, because those must all be writable. Without settings and
-- without a marker nothing is written: Redis may just have come back empty.
local id = redis.call('HGET', KEYS[1], 'id')
local changes = redis.call('HGET', KEYS[1], 'changes')
if not id then
	if redis.call('HLEN', ARGV[1]) == 0 then
		return {'', '0'}
	end
	id, changes = ARGV[2], ARGV[3]
end
changes = string.format('%.0f', (tonumber(changes) or 0) + 1)
redis.call('HSET', KEYS[1], 'id', id, 'changes', changes)
return {id, changes}
