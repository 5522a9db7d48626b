-- Notes a purge by Redis' clock; what was purged before never goes back. A hash that is full, or none at all, or that has
-- an epoch ahead of the clock, becomes one of everything, which covers all that was in it.
-- KEYS[1] hash; ARGV 1 most fields, 2 field, 3 us that a clock may be ahead -> {the field that was set, its epoch in us}
local k,field=KEYS[1],ARGV[2]
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local ahead=now+tonumber(ARGV[3])
local flat=redis.pcall('HGETALL',k)
if flat.err then redis.call('DEL',k); flat={}; field='all' end
if #flat>=2*tonumber(ARGV[1]) and redis.call('HEXISTS',k,field)==0 then field='all' end
for i=2,#flat,2 do
  if #flat[i]>16 or (tonumber(flat[i]) or 0)>ahead then field='all' end
end
local was=tonumber(redis.call('HGET',k,field))
if was and was>=now and was<=ahead then now=was+1 end
if field=='all' then redis.call('DEL',k) end
local epoch=string.format('%.0f',now)
redis.call('HSET',k,field,epoch)
return {field,epoch}
