-- Writes what one process has counted into the hash of a day, once per version: its sums, and what they add to those of all.
-- ARGV 1 process, 2 version, 3 fields that the hash may have, then rows and the process' sums in turn
-- -> 1 written, 0 the version is known, -1 the hash is full
-- The first write of a process deletes KEYS from the second on: older days.
local k,own,mark=KEYS[1],'o|'..ARGV[1]..'|','p|'..ARGV[1]
if tonumber(ARGV[2])<=(tonumber(redis.call('HGET',k,mark) or 0) or 0) then return 0 end
if redis.call('HLEN',k)+#ARGV-3>tonumber(ARGV[3]) then return -1 end
local function numbers(field)
  local n={} for x in string.gmatch(redis.call('HGET',k,field) or '','%S+') do n[#n+1]=tonumber(x) or 0 end
  return n
end
if redis.call('HEXISTS',k,mark)==0 then redis.call('UNLINK',unpack(KEYS,2)) end
local set={mark,ARGV[2]}
for i=4,#ARGV,2 do
  local all,had,n=numbers('r|'..ARGV[i]),numbers(own..ARGV[i]),0
  local sums=string.gsub(ARGV[i+1],'%S+',function(x)
    n=n+1
    return string.format('%.0f',math.max(-9e15,math.min((all[n] or 0)+x-(had[n] or 0),9e15)))
  end)
  for _,x in ipairs({own..ARGV[i],ARGV[i+1],'r|'..ARGV[i],sums}) do set[#set+1]=x end
end
redis.call('HSET',k,unpack(set))
return 1
