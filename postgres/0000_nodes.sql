-- Nodes of the cluster. Times are those of PostgreSQL's clock, in ms since 1970.
create function tollgate.now_ms() returns bigint language sql volatile parallel safe as
$$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$;

create table tollgate.nodes (
  -- Of its data folder, for ever.
  id text primary key,
  name text not null,
  -- Of one run.
  epoch text not null,
  -- Of the data folder on its machine since the boot: a copy has another.
  place text not null,
  -- Where other nodes and people reach it.
  address text not null,
  version text not null,
  -- active, draining (finishes its requests and takes no more), stopped (ended in order), left (is not coming back).
  state text not null default 'active',
  -- What was asked of it through the cluster: drain, or null.
  wish text,
  started_ms bigint not null,
  seen_ms bigint not null,
  -- JSON: what it tells about itself, such as its revision of the configuration and the rows that wait.
  facts text not null default '{}'
);

-- Without them, the sessions of a machine that is cut off stay for two hours, and take the connections of others. They hold for sessions that begin later.
do $$
declare
  setting text;
begin
  foreach setting in array array['tcp_keepalives_idle = 30', 'tcp_keepalives_interval = 10', 'tcp_keepalives_count = 3', 'tcp_user_timeout = 60000'] loop
    execute format('alter role %I in database %I set %s', current_user, current_database(), setting);
  end loop;
exception when insufficient_privilege or feature_not_supported then
  null;
end $$;
