import { expect, test } from 'bun:test'
import { createLog } from '../../../src/log.ts'
import { openPostgres, type Postgres, PostgresRefusal, type Timing } from '../../../src/store/postgres/client.ts'
import { migratePostgres, POSTGRES_MIGRATIONS } from '../../../src/store/postgres/migrate.ts'
import { makeCertificate, putPair } from '../../support/certificate.ts'
import {
  describeWith,
  startDroppingProxy,
  startPgBouncer,
  startPostgres,
  type TestPostgres,
} from '../../support/engines.ts'
import { forAllTests } from '../../support/lifetime.ts'
import { until } from '../../support/until.ts'

const lines: string[] = []
const log = createLog({ now: () => 0, write: async (bytes) => void lines.push(bytes.toString()) })
const fast = { pingMs: 50, retryMs: 20, holdMs: 50, leaseMs: 600, connectMs: 500 }

function open(url: string, timing: Partial<Timing> = fast) {
  const postgres: Postgres = openPostgres({ url, log, timing })
  return Object.assign(postgres, { [Symbol.asyncDispose]: () => postgres.close() })
}
const refusalOf = (work: Promise<unknown>): Promise<PostgresRefusal> =>
  work.then(
    () => Promise.reject(new Error('it was not refused')),
    (error: unknown) => (error instanceof PostgresRefusal ? error : Promise.reject(error)),
  )
const at = (port: number, query = '') => `postgres://postgres:s3cret@127.0.0.1:${port}/postgres${query}`
const isHere = (server: TestPostgres) => server.query<{ one: number }>('select 1 as one')

describeWith('PostgreSQL', 'PgBouncer')('PostgreSQL', () => {
  const pair = makeCertificate('DNS:localhost')
  const server = forAllTests(() => startPostgres({ tls: pair }))

  test('returns whole numbers as numbers if they are exact, otherwise as BigInt', async () => {
    await using postgres = open(server.url)
    const [row] = await postgres.query(
      `select $1::int8 as small, 9007199254740993::int8 as large, sum(x) as total, sum(x) * 9007199254740992 as vast,
        avg(x) as mean, '12' as text, array[1, 9007199254740993]::int8[] as list, $2::text::json as json, null::int8 as none
        from (values (1::int8), (2::int8)) rows (x)`,
      [7, JSON.stringify({ a: [1] })],
    )
    expect(row).toEqual({
      ...{ small: 7, large: 9007199254740993n, total: 3, vast: 27021597764222976n, mean: 1.5, text: '12' },
      ...{ list: [1, 9007199254740993n], json: { a: [1] }, none: null },
    })
  })

  test('rolls a transaction back if its work throws, and names a conflict', async () => {
    await using postgres = open(server.url)
    await postgres.query('create table pairs (id int primary key)')
    const failed = postgres.begin(async (tx) => {
      await tx.query('insert into pairs values (1)')
      throw new Error('no more')
    })
    await expect(failed).rejects.toThrow('no more')
    expect(await postgres.query('select * from pairs')).toEqual([])
    await postgres.begin((tx) => tx.query('insert into pairs values ($1)', [1]))
    const twice = await refusalOf(postgres.query('insert into pairs values ($1)', [1]))
    expect([twice.kind, twice.sqlstate, twice.inDoubt]).toEqual(['conflict', '23505', false])
  })

  test('a slow statement is canceled, and others on the same link go on', async () => {
    await using postgres = open(server.url)
    const other = postgres.query<{ done: number }>('select 1 as done from pg_sleep(0.4)')
    const slow = await refusalOf(postgres.query('select pg_sleep(60)', [], { timeoutMs: 100 }))
    expect([slow.kind, slow.sqlstate, slow.inDoubt]).toEqual(['timeout', '57014', false])
    const late = await refusalOf(postgres.begin((tx) => tx.query('select pg_sleep(60)'), { timeoutMs: 100 }))
    expect([late.kind, late.inDoubt]).toEqual(['timeout', false])
    expect(await other).toEqual([{ done: 1 }])
    expect(postgres.trouble).toBeNull()
  })

  test('a query that finds no free connection gets one, though all of them hang', async () => {
    await using postgres = open(server.url)
    for (let held = 0; held < 4; held++)
      postgres.query('select pg_sleep(60)', [], { timeoutMs: 60_000 }).catch(() => {})
    const isAnswered = () =>
      postgres.query('select 1', [], { timeoutMs: 100 }).then(
        () => true,
        () => false,
      )
    await Bun.sleep(50)
    expect(await isAnswered()).toBe(false)
    await until('an answer', isAnswered)
  })

  test('a link that drops bytes is given up, its writes are in doubt, and the next query has another', async () => {
    const proxy = await startDroppingProxy(server.port)
    await using postgres = open(at(proxy.port))
    await postgres.query('select 1')
    proxy.set('drop')
    const query = await refusalOf(postgres.query('select 1', [], { timeoutMs: 100 }))
    expect([query.kind, query.inDoubt]).toEqual(['timeout', true])
    const search = await refusalOf(postgres.query('select 1', [], { timeoutMs: 100 }))
    expect([search.kind, search.inDoubt]).toEqual(['unreachable', false])
    expect(postgres.trouble).toContain(`127.0.0.1:${proxy.port}`)
    expect(postgres.trouble).not.toContain('s3cret')
    proxy.set('forward')
    await until('a new connection', () =>
      postgres.query('select 1').then(
        () => true,
        () => false,
      ),
    )
    expect(postgres.trouble).toBeNull()
    await log.flush()
    expect(lines.join('')).toContain('postgres_unreachable')
    expect(lines.join('')).toContain('postgres_reachable')
    expect(lines.join('')).not.toContain('s3cret')
    await proxy.close()
  })

  test('a commit that got no answer is in doubt; work that got none before it is not', async () => {
    const proxy = await startDroppingProxy(server.port)
    await using postgres = open(at(proxy.port))
    const atCommit = postgres.begin(
      async (tx) => {
        await tx.query('select 1')
        proxy.set('drop')
      },
      { timeoutMs: 1_000 },
    )
    expect((await refusalOf(atCommit)).inDoubt).toBe(true)
    proxy.set('forward')
    const before = postgres.begin(
      async (tx) => {
        proxy.set('drop')
        await tx.query('select 1')
      },
      { timeoutMs: 200 },
    )
    const refusal = await refusalOf(before)
    expect([refusal.kind, refusal.inDoubt]).toEqual(['timeout', false])
    await proxy.close()
  })

  test('notifications arrive, after a killed connection and after a link that went silent, too', async () => {
    const proxy = await startDroppingProxy(server.port)
    await using postgres = open(at(proxy.port))
    const heard: string[] = []
    let listening = 0
    const stop = postgres.listen(
      'news',
      (payload) => heard.push(payload),
      () => listening++,
    )
    const tell = async (text: string) => {
      await until(`${text} to be heard`, async () => {
        await server.query(`select pg_notify('news', '${text}')`)
        return heard.includes(text)
      })
    }
    await tell('one')
    await server.query("select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen%'")
    await tell('two')
    proxy.set('drop')
    await refusalOf(postgres.query('select 1', [], { timeoutMs: 100 }))
    proxy.set('forward')
    await tell('three')
    expect(listening).toBeGreaterThanOrEqual(3)
    stop()
    await proxy.close()
  })

  test('one holder has a lock; a holder that is cut off loses it, knows that, and another gets it', async () => {
    const proxy = await startDroppingProxy(server.port)
    await using cut = open(at(proxy.port))
    await using other = open(server.url)
    const holds = { cut: false, other: false }
    let both = 0
    const set = (who: keyof typeof holds) => (isHeld: boolean) => {
      holds[who] = isHeld
      if (holds.cut && holds.other) both++
    }
    cut.hold(77, set('cut'))
    await until('the lock', () => holds.cut)
    const stop = other.hold(77, set('other'))
    proxy.set('drop')
    await until('the other to have it', () => holds.other)
    expect([holds.cut, both]).toEqual([false, 0])
    proxy.set('forward')
    stop()
    await until('the first to have it again', () => holds.cut)
    expect(both).toBe(0)
    await proxy.close()
  })

  test('TLS is verified unless the URL says otherwise', async () => {
    const { certFile } = putPair(pair)
    const connect = async (host: string, query: string) => {
      await using postgres = open(`postgres://postgres@${host}:${server.port}/postgres${query}`)
      const [row] = await postgres.query<{ ssl: boolean }>('select ssl from pg_stat_ssl where pid = pg_backend_pid()')
      return row?.ssl
    }
    expect(await connect('127.0.0.1', '')).toBe(false)
    expect(await connect('localhost', `?sslmode=verify-full&sslrootcert=${certFile}`)).toBe(true)
    expect(await connect('127.0.0.1', `?sslmode=verify-ca&sslrootcert=${certFile}`)).toBe(true)
    expect(await connect('127.0.0.1', '?sslmode=no-verify')).toBe(true)
    for (const query of ['?sslmode=require', '?sslmode=verify-full', `?sslmode=require&sslrootcert=${certFile}`]) {
      const refusal = await refusalOf(connect('127.0.0.1', query))
      expect([refusal.kind, refusal.message]).toEqual(['unreachable', expect.stringContaining('certificate')])
    }
    const elsewhere = await refusalOf(connect('127.0.0.1', `?sslmode=verify-full&sslrootcert=${certFile}`))
    expect(elsewhere.message).toContain('its certificate is for another name')
    expect(() => open('postgres://a@b/c?sslmode=prefer')).toThrow('invalid')
    expect(() => open('postgres://a@b/c?sslrootcert=/nowhere.pem')).toThrow("Can't read sslrootcert /nowhere.pem")
  })

  test('a unix socket and several addresses are reached, and what is wrong with each is said', async () => {
    await using socket = open(`postgres://postgres@/postgres?host=${server.folder}&port=${server.port}`)
    expect(await socket.query('select 1 as one')).toEqual([{ one: 1 }])
    expect(socket.server?.isPooled).toBe(false)
    await using several = open(`postgres://postgres@127.0.0.1:1,127.0.0.1:${server.port}/postgres`)
    expect(await several.query('select 1 as one')).toEqual([{ one: 1 }])
    await using none = open('postgres://postgres@127.0.0.1:1,127.0.0.1:2/postgres')
    expect((await refusalOf(none.query('select 1'))).message).toBe(
      "Can't use PostgreSQL: 127.0.0.1:1: nothing listens there, or its name is unknown; 127.0.0.1:2: nothing listens there, or its name is unknown.",
    )
    await using nobody = open(`postgres://nobody@127.0.0.1:${server.port}/postgres`)
    expect((await refusalOf(nobody.query('select 1'))).message).toContain('role "nobody" does not exist')
  })

  test('a restart costs the queries of that time, and nothing after it', async () => {
    await using postgres = open(server.url)
    await postgres.query('select 1')
    const cut = refusalOf(postgres.query('select pg_sleep(60)'))
    await Bun.sleep(20)
    await server.kill()
    expect(await cut).toMatchObject({ kind: 'unreachable', inDoubt: true })
    expect((await refusalOf(postgres.query('select 1'))).kind).toBe('unreachable')
    await server.start()
    expect(await postgres.query('select 1 as one')).toEqual([{ one: 1 }])
  })

  test('behind a pooler, statements, transactions, and locks work, and deaf listening is said', async () => {
    const pooler = await startPgBouncer(server)
    await using postgres = open(pooler.url)
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => postgres.query<{ i: number }>(`select $1::int as i, ${i % 7}`, [i])),
    )
    expect(answers.map(([row]) => row?.i)).toEqual(Array.from({ length: 100 }, (_, i) => i))
    expect(postgres.server?.isPooled).toBe(true)
    const holders = new Set<string>()
    const set = (who: string) => (isHeld: boolean) => (isHeld ? holders.add(who) : holders.delete(who))
    const stops = ['a', 'b'].map((who) => postgres.hold(78, set(who)))
    await until('one of them to hold it', () => holders.size === 1)
    const [first] = holders
    stops[first === 'a' ? 0 : 1]?.()
    await until('the other to hold it', () => holders.size === 1 && !holders.has(first ?? ''))
    postgres.listen(
      'news',
      () => {},
      () => {},
    )
    await until('the log to say so', async () => {
      await log.flush()
      return lines.join('').includes('postgres_deaf')
    })
    for (const stop of stops) stop()
    await pooler.close()
  })

  test('migrations run once, however many nodes start, and are those of the folder', async () => {
    const nodes = Array.from({ length: 5 }, () => open(server.url))
    const ran = await Promise.all(nodes.map((node) => migratePostgres(node)))
    const names = POSTGRES_MIGRATIONS.map(({ name }) => name)
    expect(ran.filter((each) => each.length > 0)).toEqual([names])
    const files = [...new Bun.Glob('*.sql').scanSync(`${import.meta.dir}/../../../postgres`)].sort()
    expect(files).toEqual(names.map((name) => `${name}.sql`))
    const [first] = nodes
    if (!first) throw new Error('there are nodes')
    const broken = [...POSTGRES_MIGRATIONS, { name: '9999_broken', sql: 'create table tollgate.half (); select 1/0' }]
    expect((await refusalOf(migratePostgres(first, broken))).sqlstate).toBe('22012')
    expect(await server.query("select to_regclass('tollgate.half') as half")).toEqual([{ half: null }])
    await Promise.all(nodes.map((node) => node.close()))
  })

  test('a role that may not create is told what it needs', async () => {
    await server.query('create role poor login')
    await server.query('create database other')
    await using postgres = open(`postgres://poor@127.0.0.1:${server.port}/other`)
    await expect(migratePostgres(postgres)).rejects.toThrow('needs CREATE on the database')
    expect(await isHere(server)).toEqual([{ one: 1 }])
  })
})

describeWith('PostgreSQL')('a standby', () => {
  test('is not used while it takes no writes, and is found once it was promoted', async () => {
    const primary = await startPostgres()
    const standby = await startPostgres({ standbyOf: primary })
    await using postgres = open(`postgres://postgres@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/postgres`)
    await postgres.query('create table rows (id int)')
    expect(postgres.server?.address).toBe(`127.0.0.1:${primary.port}`)
    await using alone = open(standby.url)
    expect((await refusalOf(alone.query('select 1'))).kind).toBe('read_only')
    await until('the table to be replicated', async () => {
      const [row] = await standby.query<{ found: string | null }>("select to_regclass('rows')::text as found")
      return row?.found === 'rows'
    })
    await primary.kill()
    expect((await refusalOf(postgres.query('insert into rows values (1)'))).kind).toBe('unreachable')
    await standby.promote()
    await until('a write to arrive', () =>
      postgres.query('insert into rows values (1)').then(
        () => true,
        () => false,
      ),
    )
    expect(postgres.server?.address).toBe(`127.0.0.1:${standby.port}`)
    // The old one comes back and takes writes, too: the one that was promoted last is used.
    await primary.start()
    await using later = open(`postgres://postgres@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`)
    expect(await later.query('select 1 as one from rows')).toEqual([{ one: 1 }])
    await primary.close()
    await standby.close()
  })
})
