-- KEYS: pairs, sent, sums of the pair. ARGV: pair, id of the batch, most pairs, then field and increment in turn.
-- Returns 1 if added, 0 if it was added before, -1 if there are too many pairs.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local month, hour = 30 * 24 * 3600 * 1000, 3600 * 1000
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - month)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - hour)
if redis.call('ZSCORE', KEYS[2], ARGV[2]) then return 0 end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return -1 end
for i = 4, #ARGV, 2 do
  local v = tonumber(redis.call('HGET', KEYS[3], ARGV[i]) or '0') + tonumber(ARGV[i + 1])
  redis.call('HSET', KEYS[3], ARGV[i], string.format('%.17g', v))
end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZADD', KEYS[2], now, ARGV[2])
redis.call('PEXPIRE', KEYS[1], month)
redis.call('PEXPIRE', KEYS[2], hour)
redis.call('PEXPIRE', KEYS[3], month)
return 1
