-- Purges everything, unless that was done since: for a replica that knows purges which the hash has lost, or that finds
-- epochs ahead of its clock. By Redis' clock, and never before what is known; what is ahead of it is not believed.
-- KEYS[1] hash; ARGV 1 the highest epoch that the hash must exceed, 2 us that a clock may be ahead
-- -> fields and values of the hash
local k,known=KEYS[1],tonumber(ARGV[1])
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local ahead=now+tonumber(ARGV[2])
if known>ahead then known=0 end
local all,flat=tonumber(redis.call('HGET',k,'all')),redis.call('HGETALL',k)
local wrong=not all or all<=known
for i=2,#flat,2 do wrong=wrong or #flat[i]>16 or (tonumber(flat[i]) or 0)>ahead end
if wrong then
  redis.call('DEL',k)
  redis.call('HSET',k,'all',string.format('%.0f',math.max(now,known+1)))
end
return redis.call('HGETALL',k)
