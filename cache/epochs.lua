-- Purges everything, unless that was done since: for a replica that knows purges which the hash has lost. By Redis' clock,
-- and never before what is known.
-- KEYS[1] hash; ARGV 1 the highest epoch that the replica knows -> fields and values of the hash
local k,known=KEYS[1],tonumber(ARGV[1])
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local all=tonumber(redis.call('HGET',k,'all'))
if not all or all<=known then
  redis.call('DEL',k)
  redis.call('HSET',k,'all',string.format('%.0f',math.max(now,known+1)))
end
return redis.call('HGETALL',k)
