-- KEYS: index, bytes, items, wholes. ARGV: conversation, response, response before it ("" for none), sealed items, sealed response, time
-- to live in ms, bytes of the tenant, bytes of a conversation, responses of a conversation.
-- It answers "ok", or why it stores nothing.
local index, bytes = KEYS[1], KEYS[2]
local conversation, response, before = ARGV[1], ARGV[2], ARGV[3]
local ttl, tenant_max = tonumber(ARGV[6]), tonumber(ARGV[7])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function forget(name)
  redis.call('UNLINK', index .. ':' .. name, index .. ':' .. name .. ':whole')
  redis.call('ZREM', index, name)
  local freed = tonumber(redis.call('HGET', bytes, name) or '0')
  redis.call('HDEL', bytes, name)
  local all = tonumber(redis.call('HGET', bytes, '') or '0') - freed
  redis.call('HSET', bytes, '', math.max(0, all))
end

for _, name in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', now - ttl, 'LIMIT', 0, 100)) do
  forget(name)
end
if before ~= '' and (not redis.call('ZSCORE', index, conversation) or redis.call('HEXISTS', KEYS[3], before) == 0) then
  return 'gone'
end
local size = #ARGV[4] + #ARGV[5] + 2 * #response + 256
local own = tonumber(redis.call('HGET', bytes, conversation) or '0') + size
if own > tonumber(ARGV[8]) or own > tenant_max or redis.call('HLEN', KEYS[3]) >= tonumber(ARGV[9]) then
  return 'large'
end
redis.call('ZADD', index, now, conversation)
for _, oldest in ipairs(redis.call('ZRANGE', index, 0, 999)) do -- bounded: nobody else is served meanwhile
  if oldest == conversation or tonumber(redis.call('HGET', bytes, '') or '0') + size <= tenant_max then
    break
  end
  forget(oldest)
end
if tonumber(redis.call('HGET', bytes, '') or '0') + size > tenant_max then
  if own == size then
    redis.call('ZREM', index, conversation)
  end
  return 'large'
end
redis.call('HSET', KEYS[3], response, ARGV[4])
redis.call('HSET', KEYS[4], response, ARGV[5])
redis.call('HSET', bytes, conversation, own, '', tonumber(redis.call('HGET', bytes, '') or '0') + size)
for i = 1, 4 do
  redis.call('PEXPIRE', KEYS[i], ttl)
end
return 'ok'
