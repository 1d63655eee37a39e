/**
 * Model servers that the built executable starts: sources of their commands, manual control, and that none outlives the
 * executable.
 */
import { describe, expect, test } from 'bun:test'
import { chmodSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createWorkplace, type RunningBinary, type Workplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'
import { modelServer } from '../support/model-server.ts'
import { until } from '../support/until.ts'

const place = forEachTest(createWorkplace)

const FACTS = 'context_length: 8192, max_output_length: 1000, input_modalities: [text], output_modalities: [text]'

/** In addition to the built-in model. */
const toFile = (ids: string[], options: string[] = []) => `version: 1
upstreams:
  demo: { dialect: demo, local: true }
${ids.map((id) => `  ${id}: { dialect: openai, process: ${JSON.stringify(modelServer(...options))}, concurrency: 4 }`).join('\n')}
models:
  tollgate/demo: { name: Demo, ${FACTS}, supported_features: [], routes: [{ upstream: demo, model: demo }] }
${ids.map((id) => `  local/${id}: { name: X, ${FACTS}, supported_features: [], routes: [{ upstream: ${id}, model: ${id} }] }`).join('\n')}
`

const toInit = ({ key }: RunningBinary, id: string, content: string, more = {}) => ({
  method: 'POST',
  headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
  body: JSON.stringify({ model: `local/${id}`, messages: [{ role: 'user', content }], ...more }),
})

const chat = (server: RunningBinary, id: string, content = 'hello', more = {}) =>
  fetch(`${server.baseUrl}/chat/completions`, toInit(server, id, content, more))

/** Processes that this test started, and that have not ended. */
function serversOf({ folder }: Workplace, ids: string[]): string[] {
  const { stdout } = Bun.spawnSync(['ps', '-eo', 'stat=,args='])
  const lines = stdout.toString().split('\n')
  return lines.filter(
    (line) => !/^Z/.test(line) && ids.some((id) => line.includes(`--alias local/${id}-${markOf(folder)} `)),
  )
}

/** Marks the processes of one test. */
const markOf = (folder: string) => folder.slice(-6).toLowerCase()

describe('model servers of the executable', () => {
  test.each(['SIGTERM', 'SIGKILL'] as const)('are gone with it after %s', async (signal) => {
    const ids = ['a', 'b']
    const mark = markOf(place.folder)
    const own = ids.map((id) => `${id}-${mark}`)
    const file = await place.write('own.yaml', toFile(own, ['--child', '--deaf']))
    const server = await place.serve(['--catalog', file, '--first-key'])
    const answers = await Promise.all(own.map((id) => chat(server, id)))
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    expect(serversOf(place, ids).length).toBeGreaterThan(1)
    server.signal(signal)
    await server.exited
    await until('none of them is left', () => serversOf(place, ids).length === 0)
  })

  test('finish a response in flight before they are stopped', async () => {
    const file = await place.write('own.yaml', toFile(['a']))
    const server = await place.serve(['--catalog', file, '--first-key'])
    expect((await chat(server, 'a')).status).toBe(200)
    const answer = await chat(server, 'a', 'wait 700', { stream: true })
    server.signal('SIGTERM')
    expect(await answer.text()).toContain('data: [DONE]')
    expect(await server.exited).toBe(0)
  })

  test('are started, stopped, and inspected by commands', async () => {
    const file = await place.write(
      'data/models.d/a.yaml',
      toFile(['a']).replaceAll('demo', 'other').replaceAll('dialect: other', 'dialect: demo'),
    )
    chmodSync(file, 0o600)
    await place.serve(['--first-key'])
    expect((await place.run('upstreams', 'logs', 'a')).stderr).toContain('No log for a: ')
    expect(await place.run('upstreams', 'start', 'a')).toMatchObject({ code: 0, stdout: 'a: ready.\n' })
    const listed = await place.run('upstreams', 'list')
    expect(listed.stdout).toContain('local process')
    expect(listed.stdout).toContain('server: ready')
    expect((await place.run('upstreams', 'logs', 'a')).stdout).toContain('model server local/a with …')
    expect(await place.run('upstreams', 'stop', 'a')).toMatchObject({ code: 0, stdout: 'a: stopped.\n' })
    const other = await place.run('upstreams', 'start', 'other')
    expect([other.code, other.stderr]).toEqual([1, expect.stringContaining('runs no model server')])
    expect((await place.run('upstreams', 'test', 'a')).code).toBe(0)
  })

  test('that hang can be stopped at once, and restart for queued requests', async () => {
    const file = await place.write('own.yaml', toFile(['a']).replace('concurrency: 4', 'concurrency: 1'))
    const server = await place.serve(['--catalog', file, '--first-key'])
    const left = new AbortController()
    const hung = fetch(`${server.baseUrl}/chat/completions`, {
      ...toInit(server, 'a', 'hang'),
      signal: left.signal,
    }).catch(() => 'left')
    const listed = async () => (await place.run('upstreams', 'list')).stdout
    await until('it hangs', async () => (await listed()).includes('1 in flight'))
    const next = chat(server, 'a')
    await until('another one waits', async () => (await listed()).includes('1 queued'))
    const stopped = await place.run('upstreams', 'stop', 'a', '--now')
    expect(stopped).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^a: stopped, now \w+ again for queued requests\.\n$/),
    })
    expect((await next).status).toBe(200)
    left.abort()
    expect(await hung).toBe('left')
  })

  test('are called directly, while all others are called through a proxy', async () => {
    const file = await place.write('own.yaml', toFile(['a']))
    const environment = { HTTP_PROXY: 'http://127.0.0.1:9', http_proxy: 'http://127.0.0.1:9' }
    const server = await place.serve(['--catalog', file, '--first-key'], { environment })
    const asked = Bun.spawn(
      [
        'curl',
        '-s',
        '--noproxy',
        '*',
        '-H',
        `authorization: Bearer ${server.key}`,
        '-H',
        'content-type: application/json',
        '-d',
        '{"model":"local/a","messages":[{"role":"user","content":"hello"}]}',
        `${server.baseUrl}/chat/completions`,
      ],
      { stdout: 'pipe' },
    )
    expect(await asked.stdout.text()).toContain('I am local/a')
  })

  test('continue if the file of their commands is gone, and a revoked key then ends at once', async () => {
    const file = await place.write('own.yaml', toFile(['a']))
    const server = await place.serve(['--catalog', file, '--first-key'])
    expect((await chat(server, 'a')).status).toBe(200)
    await rm(file)
    // A changed row makes it read the commands again.
    const other = await place.write('other.yaml', toFile(['a', 'b']))
    expect((await place.run('catalog', 'apply', other)).code).toBe(0)
    await server.logged('model server commands cannot be read')
    expect((await chat(server, 'a')).status).toBe(200)
    expect((await chat(server, 'b')).status).toBe(503)
    expect((await place.run('keys', 'revoke', String(server.key).slice(-4))).code).toBe(0)
    expect((await chat(server, 'a')).status).toBe(401)
  })

  test('appear and disappear with their files', async () => {
    const models = async () => {
      const { models } = JSON.parse((await place.run('models', 'list', '--json')).stdout)
      return models.map(({ slug }: { slug: string }) => slug)
    }
    const write = async (id: string, isWhole = false) => {
      const lines = toFile([id]).split('\n')
      // The built-in model is declared once.
      const text = lines.filter((line) => isWhole || !line.includes('demo')).join('\n')
      chmodSync(await place.write(`data/models.d/${id}.yaml`, text), 0o600)
    }
    await write('a', true)
    const server = await place.serve(['--first-key'])
    expect(await models()).toEqual(['local/a', 'tollgate/demo'])
    await write('b')
    server.signal('SIGHUP')
    await until('both are there', async () => String(await models()) === 'local/a,local/b,tollgate/demo')
    for (const [id, left] of [
      ['a', 'local/b,tollgate/demo'],
      ['b', 'tollgate/demo'],
    ] as const) {
      await rm(`${place.folder}/data/models.d/${id}.yaml`)
      server.signal('SIGHUP')
      await until(`${id} is gone`, async () => String(await models()) === left)
    }
  })

  test('report why they could not be started', async () => {
    const file = await place.write('own.yaml', toFile(['a'], ['--die']))
    await place.serve(['--catalog', file, '--first-key'])
    const started = await place.run('upstreams', 'start', 'a')
    expect(started.code).toBe(1)
    expect(started.stderr).toMatch(
      /Couldn't start the model server of \S+: its process exited with 1 before it was ready; .*upstreams logs ID/,
    )
    expect((await place.run('upstreams', 'logs', 'a')).stdout).toContain('error: failed to load model')
    expect((await place.run('doctor')).stdout).toContain('exited with 1')
  })

  test("don't start for a file that was not named, or from a database that brings one", async () => {
    await place.write('data/catalog.yaml', toFile(['a']))
    const server = await place.serve(['--first-key'])
    expect((await chat(server, 'a')).status).toBe(503)
    const listed = await place.run('upstreams', 'list', '--json')
    expect(listed.stdout).toMatch(/its process is not run: .*--catalog names, .*models\.d .*only their owner can write/)
    await server.logged('name this file with --catalog')
    const exported = await place.run('catalog', 'export', '--json')
    expect(exported.stdout).toContain('sha256:')
    expect(exported.stdout).not.toContain('model-server.ts')
    const backup = await place.run('backup', 'copy.sqlite')
    expect(backup.code).toBe(0)
    expect(await Bun.file(`${place.folder}/copy.sqlite`).text()).not.toContain('model-server.ts')
  })
})
