-- Writes sums of one process into the hash of a day, once per version; a fold adds them to what all share instead.
-- ARGV 1 process, 2 version, 3 'put' or 'fold', 4 fields that the hash may have, then rows and sums in turn
-- -> 1 written, 0 the version is known, -1 the hash is full
local k,fold,mark=KEYS[1],ARGV[3]=='fold','p|'..ARGV[1]
if tonumber(ARGV[2])<=(tonumber(redis.call('HGET',k,mark) or 0) or 0) then return 0 end
if redis.call('HLEN',k)+(#ARGV-4)/2>=ARGV[4]*(fold and 2 or 1) then return -1 end
local set,gone={mark,ARGV[2]},{}
for i=5,#ARGV,2 do
  local name,sums='o|'..ARGV[1]..'|'..ARGV[i],ARGV[i+1]
  if fold then
    gone[#gone+1]=name
    name='r|'..ARGV[i]
    local old,i={},0
    for n in string.gmatch(redis.call('HGET',k,name) or '','%S+') do old[#old+1]=tonumber(n) or 0 end
    local function plus(n) i=i+1 return string.format('%.0f',math.max(-9e15,math.min(n+(old[i] or 0),9e15))) end
    sums=string.gsub(sums,'%S+',plus)
  end
  for _,x in ipairs({name,sums}) do set[#set+1]=x end
end
redis.call('HSET',k,unpack(set))
if #gone>0 then redis.call('HDEL',k,unpack(gone)) end
return 1
