/** Limits of a cluster as its clients see them: nodes with one or several processes, on both engines. */

import { expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { RedisClient } from 'bun'
import { createWorkplace, runBinary } from '../support/binary.ts'
import { describeWith, startPostgres, startValkey } from '../support/engines.ts'
import { forAllTests } from '../support/lifetime.ts'
import { until } from '../support/until.ts'

describeWith('PostgreSQL', 'Valkey')('the limits of a cluster', () => {
  const postgres = forAllTests(() => startPostgres())
  const valkey = forAllTests(() => startValkey())
  const places = [1, 2].map(() => forAllTests(() => createWorkplace()))
  const body = JSON.stringify({ model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] })
  const ask = (baseUrl: string, key: string) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    return fetch(`${baseUrl}/chat/completions`, { method: 'POST', headers, body })
  }

  test.each(['PostgreSQL', 'Valkey'])('all nodes together keep the limits, in %s', async (engine) => {
    const secret = { TOLLGATE_SECRET: 'a'.repeat(64) }
    const environment = {
      ...secret,
      TOLLGATE_CLUSTER: postgres.url,
      ...(engine === 'Valkey' && { TOLLGATE_LIMITS: valkey.url }),
    }
    const [first, second] = places
    if (!first || !second) throw new Error('there are two')
    const one = await first.serve(['--node-name', 'one'], { environment })
    const two = await second.serve(['--node-name', 'two', '--processes', '2'], { environment })
    const made = await first.run('keys', 'create', '--name', `of ${engine}`, '--rpm', '6', '--json')
    const { key } = JSON.parse(made.stdout)
    await until('the other node to know the key', async () => (await ask(two.baseUrl, key)).ok)
    const statuses = await Promise.all(
      Array.from({ length: 12 }, async (_, at) => (await ask((at % 2 ? one : two).baseUrl, key)).status),
    )
    expect(statuses.filter((status) => status === 200).length).toBe(5)
    expect(statuses.filter((status) => status === 429).length).toBe(7)

    const again = await first.run('keys', 'create', '--name', `over a restart of ${engine}`, '--rpm', '2', '--json')
    const kept = JSON.parse(again.stdout).key
    expect((await ask(one.baseUrl, kept)).status).toBe(200)
    const { code, pid } = await first.restart()
    expect(code).toBe(0)
    expect([(await ask(one.baseUrl, kept)).status, (await ask(one.baseUrl, kept)).status]).toEqual([200, 429])

    const doctor = await runBinary(['doctor', '--data', join(first.folder, 'data')], { environment })
    if (engine === 'Valkey') expect(doctor.stdout).toContain('has the limits of all nodes (version ')
    const other = await first.run('keys', 'create', '--name', `without ${engine}`, '--concurrency', '9', '--json')
    const away = engine === 'Valkey' ? valkey : postgres
    await away.kill()
    const status = async () => (await first.run('status')).stdout
    await until('a node to say so', async () => (await status()).includes("The limits of all nodes can't be reached"))
    const answer = await ask(one.baseUrl, JSON.parse(other.stdout).key)
    expect([answer.status, answer.headers.get('x-tollgate-limits')]).toEqual([200, 'share'])
    await away.start()
    await until('a node to be well', async () => (await status()).includes('is reachable.\n'))
    two.signal('SIGTERM')
    process.kill(pid, 'SIGTERM')
    expect(await two.exited).toBe(0)
    await until('the other to end', () => !existsSync(`/proc/${pid}`))
  })
})

describeWith('PostgreSQL', 'Valkey')('a node of a cluster', () => {
  const postgres = forAllTests(() => startPostgres())
  const [valkey, other] = [forAllTests(() => startValkey()), forAllTests(() => startValkey())]
  const [first, second] = [forAllTests(() => createWorkplace()), forAllTests(() => createWorkplace())]

  test('a node doesn’t join with a wrong Valkey password, and reports that another node uses another Valkey', async () => {
    const of = (limits: string) => ({
      environment: { TOLLGATE_SECRET: 'a'.repeat(64), TOLLGATE_CLUSTER: postgres.url, TOLLGATE_LIMITS: limits },
    })
    const one = await first.serve(['--node-name', 'one'], of(valkey.url))
    const client = new RedisClient(other.url)
    await client.send('CONFIG', ['SET', 'requirepass', 'right'])
    client.close()
    const wrong = `redis://:wrong@127.0.0.1:${other.port}`
    const data = ['--data', join(second.folder, 'data'), '--port', '0']
    const refused = await runBinary(['serve', '--node-name', 'two', ...data], of(wrong))
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringContaining("Can't use the Valkey or Redis of --limits"),
    ])
    expect(refused.stderr).not.toContain('wrong@')
    const two = await second.serve(['--node-name', 'two'], of(wrong.replace('wrong', 'right')))
    for (const [place, name] of [
      [first, 'two'],
      [second, 'one'],
    ] as const)
      await until('it to say so', async () =>
        (await place.run('status')).stdout.includes(`Node ${name} has its limits elsewhere`),
      )
    two.signal('SIGKILL')
    await two.exited
    const again = await second.serve(['--node-name', 'two'], of(wrong))
    expect((await second.run('status')).stdout).toContain("can't reach Valkey")
    for (const node of [one, again]) node.signal('SIGTERM')
  })
})
