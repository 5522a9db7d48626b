-- Purges again what a hash of purges has lost: everything, where it does not say since when or says less than a replica
-- knows; else the fields that it lacks or that say less. By Redis' clock, and never what was before. Who knows no more
-- than it says changes nothing, so that of those who ask at once all hear the same.
-- KEYS[1] hash; ARGV 1 most fields, 2 the epoch known of all, then field, epoch known -> fields and values of the hash
local k,most,known=KEYS[1],tonumber(ARGV[1]),tonumber(ARGV[2])
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local function note(field,above) redis.call('HSET',k,field,string.format('%.0f',math.max(now,above+1))) end
local function everything(above)
  note('all',above)
  if redis.call('HLEN',k)>=most then -- it covers the others; first it must be there
    redis.call('DEL',k)
    note('all',above)
  end
end
local all=tonumber(redis.call('HGET',k,'all'))
if not all or all<known then
  everything(known)
else
  for i=3,#ARGV,2 do
    local was,above=tonumber(redis.call('HGET',k,ARGV[i])),tonumber(ARGV[i+1])
    if not was and redis.call('HLEN',k)>=most then
      everything(all)
      break
    end
    if not was or was<above then note(ARGV[i],above) end
  end
end
return redis.call('HGETALL',k)
