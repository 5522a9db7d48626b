-- KEYS: as of put. ARGV: conversation, response. It answers how many were deleted.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 0
end
local size = redis.call('HSTRLEN', KEYS[3], ARGV[2]) + redis.call('HSTRLEN', KEYS[4], ARGV[2]) + 2 * #ARGV[2] + 256
local deleted = redis.call('HDEL', KEYS[3], ARGV[2])
redis.call('HDEL', KEYS[4], ARGV[2])
if deleted == 0 then
  return 0
end
redis.call('HSET', KEYS[2], '', math.max(0, tonumber(redis.call('HGET', KEYS[2], '') or '0') - size))
if redis.call('HLEN', KEYS[3]) == 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], math.max(0, tonumber(redis.call('HGET', KEYS[2], ARGV[1]) or '0') - size))
end
return deleted
