/**
 * Secrets of the built executable in use: shown once, to their owner, and nowhere else. The test calls every read route
 * as an owner, and checks the log, the commands' output, and the files.
 */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { openDatabase } from '../../src/store/sqlite/open.ts'
import { createWorkplace } from '../support/binary.ts'
import { forEachTest } from '../support/lifetime.ts'

const work = forEachTest(createWorkplace)

const PASSWORD = 'a long way to the sea'
const OIDC = ['--oidc-issuer', 'https://login.invalid', '--oidc-client-id', 'tollgate', '--oidc-role', 'admins=owner']

/** A user with a browser that keeps cookies. */
function createBrowser(origin: string) {
  let cookie = ''
  return {
    secret: () => cookie.split('=')[1] ?? '',
    async ask(method: string, path: string, body?: object) {
      const response = await fetch(`${origin}/admin/api${path}`, {
        method,
        redirect: 'manual',
        headers: { origin, cookie, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      cookie = response.headers.get('set-cookie')?.split(';')[0] ?? cookie
      const text = await response.text()
      // biome-ignore lint/suspicious/noExplicitAny: whatever a route answers with
      const read: any = response.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : null
      const headers = JSON.stringify([...response.headers].filter(([name]) => name !== 'set-cookie'))
      return { status: response.status, text: headers + text, body: read }
    },
  }
}

const filesBelow = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile())

test('after its creation, no secret is in any response, in the log, in the output of commands, or in a file', async () => {
  const ours = readFileSync(join(import.meta.dir, '../../catalog.yaml'), 'utf8')
  const env = `  env: { dialect: openai, base_url: https://api.example.com/v1, api_key: "\${ENV_CREDENTIAL}" }`
  const ofFile = 'credential-of-a-file-0123456789'
  const credentialFile = await work.write('credential', `${ofFile}\n`)
  const both = `  both: { dialect: openai, base_url: https://both.invalid/v1, api_key: ["\${OTHER_CREDENTIAL}", "file:${credentialFile}"] }`
  const catalog = await work.write('catalog.yaml', ours.replace('\nupstreams:\n', `\nupstreams:\n${env}\n${both}\n`))
  const environment = {
    TOLLGATE_OIDC_CLIENT_SECRET: 'client-secret-0123456789',
    ENV_CREDENTIAL: 'env-credential-0123456789',
    OTHER_CREDENTIAL: 'other-credential-0123456789',
  }
  const server = await work.serve(['--catalog', catalog, '--first-key', ...OIDC], { environment })
  const { origin } = new URL(server.baseUrl)
  const secrets: Record<string, string> = {
    ...{
      'client secret': environment.TOLLGATE_OIDC_CLIENT_SECRET,
      'variable of the server': environment.ENV_CREDENTIAL,
      'one of several': environment.OTHER_CREDENTIAL,
      'one in a file': ofFile,
    },
    ...{ password: PASSWORD, 'first key': server.key ?? '' },
    'typed in credential': 'typed-in-credential-0123456789',
    'another one typed in': 'typed-in-beside-it-0123456789',
  }
  /** Creates it as the owner, and notes the values that must not appear again. */
  const owner = createBrowser(origin)
  const make = async (what: string, field: string, path: string, body: object) => {
    const answer = await owner.ask('POST', path, body)
    expect([what, answer.status]).toEqual([what, 200])
    secrets[what] = answer.body[field]
    return answer.body
  }

  secrets['setup code'] = (await work.run('admin', 'code')).stdout.trim()
  const ann = { name: 'ann', password: PASSWORD }
  expect((await owner.ask('POST', '/setup', { ...ann, code: secrets['setup code'] })).status).toBe(200)
  secrets['session that ended'] = owner.secret()
  expect((await owner.ask('POST', '/session', ann)).status).toBe(200)
  secrets.session = owner.secret()

  const key = await make('key', 'key', '/keys', { name: 'app' })
  await make('rotated key', 'key', `/keys/${key.id}/rotate`, { overlap: '1h' })
  await make('token', 'token', '/tokens', { name: 'script', scope: 'write' })
  const team = (await owner.ask('POST', '/teams', { name: 'research' })).body
  await make('code that waits', 'code', '/admins', { name: 'bob', role: 'editor' })
  const mia = await make('code that was used', 'code', '/admins', { name: 'mia', role: 'member', team: team.id })
  const member = createBrowser(origin)
  await member.ask('POST', '/code', { name: 'mia', code: mia.code, password: `${PASSWORD} too` })
  secrets['session of another'] = member.secret()
  const own = await member.ask('POST', '/own/keys', { name: 'of mia' })
  secrets['key of a member'] = own.body.key
  const upstream = { id: 'mine', dialect: 'openai', base_url: 'http://127.0.0.1:9/v1', local: true }
  const made = await owner.ask('POST', '/upstreams', {
    ...upstream,
    api_key: [secrets['typed in credential'], secrets['another one typed in']],
  })
  expect([made.status, made.text.includes('typed-in-')]).toEqual([200, false])
  const receiver = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('no', { status: 500 }) })
  secrets['URL of a target'] = 'path-of-a-hook-0123456789'
  const target = { url: `${receiver.url}${secrets['URL of a target']}`, format: 'json' }
  const added = await make('signing secret', 'secret', '/alerts', { ...target, name: 'chat' })
  expect((await owner.ask('POST', `/alerts/${added.id}/test`)).body.state).toBe('failed')
  await receiver.stop(true)
  const readSecret = () => readFileSync(join(work.folder, 'data', 'secret'), 'utf8').trim()
  secrets['secret that was replaced'] = readSecret()
  const rotated = await work.run('secret', 'rotate', '--json')
  expect([rotated.code, JSON.parse(rotated.stdout)]).toEqual([0, { credentials: 3, unopened: [], unopened_alerts: [] }])
  secrets['secret of the folder'] = readSecret()

  const HELLO = { model: 'tollgate/demo', messages: [{ role: 'user', content: 'Hello' }] }
  expect((await owner.ask('POST', '/playground', HELLO)).status).toBe(200)
  await fetch(`${server.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secrets['rotated key']}`, 'content-type': 'application/json' },
    body: JSON.stringify(HELLO),
  })
  // Errors don't contain them, either.
  await createBrowser(origin).ask('POST', '/session', { name: 'ann', password: `${PASSWORD}!` })
  await owner.ask('POST', '/keys', { name: secrets.token, wrong: secrets.token })
  await owner.ask('POST', '/upstreams/mine/test')
  const tested = await work.run('upstreams', 'test')
  await owner.ask('POST', '/backups')
  const backup = await untilMade(() => owner.ask('GET', '/backups'))

  const database = openDatabase(join(work.folder, 'data', 'tollgate.db'), { busyMs: 5_000, readonly: true })
  const read = (sql: string) =>
    database
      .query<Record<string, string>, []>(sql)
      .all()
      .flatMap((row) => Object.values(row))
  const hashes = [
    ...read('SELECT password_hash FROM admins WHERE password_hash IS NOT NULL'),
    ...read('SELECT code_hash FROM admins WHERE code_hash IS NOT NULL'),
    ...read('SELECT hash FROM admin_sessions UNION SELECT hash FROM admin_tokens UNION SELECT hash FROM key_secrets'),
    ...read('SELECT sealed FROM upstream_credentials UNION SELECT sealed FROM alert_targets'),
  ]
  const version = read('SELECT max(number) FROM catalog_versions')[0]
  database.close()
  expect(hashes.length).toBeGreaterThan(8)

  const expectNone = (where: string, text: string, known: readonly [string, string][]) => {
    for (const [what, secret] of known) expect([where, what, text.includes(secret)]).toEqual([where, what, false])
  }
  const plain = Object.entries(secrets)
  for (const [what, secret] of plain) expect([what, secret.length > 15]).toEqual([what, true])
  const all = [...plain, ...hashes.map((hash): [string, string] => ['hash', hash])]

  const requests = (await owner.ask('GET', '/requests')).body.requests
  const ids: Record<string, string> = {
    ...{
      '/keys/{id}': key.id,
      '/teams/{id}': team.id,
      '/upstreams/{id}': 'mine',
      '/upstreams/{id}/models': 'mine',
      '/requests/{id}': requests[0].id,
    },
    ...{ '/own/keys/{id}': own.body.id, '/own/requests/{id}': requests[0].id, '/models/{slug}': 'tollgate%2Fdemo' },
    ...{ '/catalog/history/{number}': String(version), '/backups/{name}': backup },
  }
  const { paths } = (await owner.ask('GET', '/openapi.json')).body as { paths: Record<string, Record<string, unknown>> }
  const readable = Object.keys(paths).filter((path) => paths[path]?.get !== undefined && !path.endsWith('/live'))
  expect(readable.length).toBeGreaterThan(25)
  for (const described of readable) {
    const path = described
      .replace('/admin/api', '')
      .replace(/\{\w+\}/, () => String(ids[described.replace('/admin/api', '')]))
    const browser = path.startsWith('/own') ? member : owner
    const { status, text } = await browser.ask('GET', path)
    // These routes have nothing to read: a sign-in that was never begun, another user's request, and an upstream's
    // refusal.
    const isRefused = ['/oidc', '/own/requests/', '/upstreams/mine/models'].some((one) => path.startsWith(one))
    expect([path, status < 300 || isRefused]).toEqual([path, true])
    // A backup is the database itself.
    expectNone(path, text, described.endsWith('/backups/{name}') ? plain : all)
  }

  const listings = [
    ['keys', 'list'],
    ['admin', 'list'],
    ['admin', 'token', 'list'],
    ['audit', 'log'],
    ['upstreams', 'list'],
    ['alerts', 'list'],
    ['alerts', 'log'],
  ]
  for (const words of [...listings, ['catalog', 'export'], ['doctor']]) {
    const { stdout, stderr } = await work.run(...words, ...(words[1] === 'export' ? [] : ['--json']))
    expectNone(words.join(' '), stdout + stderr, all)
  }
  const [, ...said] = server.stdout().split(secrets['first key'] ?? '')
  expectNone('what the server printed', said.join(''), all)
  expectNone('a test of upstreams', tested.stdout + tested.stderr, all)
  expectNone('the log', server.stderr(), all)
  for (const path of filesBelow(join(work.folder, 'data')))
    if (!path.endsWith('/secret')) expectNone(path, readFileSync(path, 'latin1'), plain)
}, 60_000)

async function untilMade(list: () => Promise<{ body: { making: string | null; backups: { name: string }[] } }>) {
  for (let i = 0; ; i++) {
    const { body } = await list()
    const [first] = body.backups
    if (body.making === null && first) return first.name
    if (i === 500) throw new Error('no backup was made')
    await Bun.sleep(20)
  }
}
