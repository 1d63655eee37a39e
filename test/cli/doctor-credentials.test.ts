/** Checks of stored credentials by `doctor`. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { editUpstream } from '../../src/catalog/edit-upstream.ts'
import { createConfigStore } from '../../src/store/sqlite/config-store.ts'
import { createVault, inspectVault } from '../../src/store/vault.ts'
import { toUpstreamStatus } from '../support/status.ts'
import { type Clinic, NOW, openClinic } from './doctor-bench.ts'

const SECRET = 'not-like-any-key~0123456789'

let clinic: Clinic
beforeEach(async () => {
  clinic = await openClinic()
})
afterEach(() => clinic.end())

async function typeIn(environment: Record<string, string> = {}): Promise<void> {
  const deps = {
    store: createConfigStore(clinic.database()),
    vault: createVault(clinic.folder, environment),
    lookUp: async () => [],
  }
  await editUpstream(deps, 'keyed', { apiKey: SECRET }, { actor: 'test', nowMs: NOW })
}

test('without a stored credential there is no check', async () => {
  expect((await clinic.examine()).of('credentials')).toBe('')
})

test('one that can be decrypted is ok, and usable by a server of this user', async () => {
  await typeIn()
  const { of, troubles } = await clinic.examine()
  expect(of('credentials')).toStartWith('ok: 1 stored credential, encrypted with')
  expect(troubles.join()).not.toContain('keyed')
  const { stdout } = await clinic.run('upstreams', 'list')
  expect(stdout).toMatch(/keyed +unknown +stored, set/)
  expect(JSON.parse((await clinic.run('upstreams', 'list', '--json')).stdout).upstreams[1].credential).toEqual({
    ...{ variable: null, sealed: true, status: 'set' },
  })
})

test("one that can't be decrypted is a problem, even if a server still has it", async () => {
  await typeIn()
  clinic.serve({ upstreams: [toUpstreamStatus('here'), toUpstreamStatus('keyed')] })
  for (const [spoil, words] of [
    [() => writeFileSync(clinic.path('secret'), `${'0'.repeat(64)}\n`), "encrypted with another file 'secret'"],
    [() => writeFileSync(clinic.path('secret'), ''), 'is damaged: it is not an encryption key that Tollgate created'],
    [() => rmSync(clinic.path('secret')), 'secret, the encryption key of stored credentials, is missing'],
  ] as const) {
    spoil()
    const { code, of } = await clinic.examine()
    expect([code, of('credentials')]).toEqual([
      1,
      expect.stringMatching(/^problem: Upstream keyed on the running server: /),
    ])
    expect(of('credentials')).toContain(words)
    expect(of('credentials')).not.toContain(SECRET)
  }
})

test('a command creates a new secret, which is not printed', async () => {
  await typeIn()
  const before = readFileSync(clinic.path('secret'), 'utf8')
  const { code, stdout, stderr } = await clinic.run('secret', 'rotate')
  expect([code, stdout]).toEqual([0, 'Re-encrypted 1 credential.\n'])
  expect(stderr).toContain(`${clinic.path('secret')} will be replaced`)
  const after = readFileSync(clinic.path('secret'), 'utf8')
  expect(after).not.toBe(before)
  expect(`${stdout}${stderr}`).not.toContain(after.trim())
  expect((await clinic.examine()).of('credentials')).toStartWith('ok: 1 stored credential, encrypted with')
})

test('without a stored credential, rotation fails before its note about backups', async () => {
  const stderr = 'error: No credentials are stored yet, so there is no encryption key to rotate.\n'
  expect(await clinic.run('secret', 'rotate')).toEqual({ code: 1, stdout: '', stderr })
})

test('at a terminal, a secret is replaced after a warning and a confirmation', async () => {
  await typeIn()
  const read = () => readFileSync(clinic.path('secret'), 'utf8')
  const before = read()
  clinic.bench.isWatched = true
  for (const answers of [['n'], []]) {
    clinic.bench.answers = answers
    expect(await clinic.run('secret', 'rotate')).toMatchObject({
      ...{ code: 1, stdout: '', stderr: expect.stringContaining('Copy that file first') },
    })
    expect(read()).toBe(before)
  }
  expect((await clinic.run('secret', 'rotate', '--yes')).code).toBe(0)
  expect(read()).not.toBe(before)
})

const SERVICE = { TOLLGATE_SECRET: 'the secret of the service, 32 characters or more' }
const OTHER = { TOLLGATE_SECRET: 'another secret of this shell, 32 characters or more' }

test('a credential that the running server can decrypt with its own variable is ok, whatever this environment has', async () => {
  await typeIn(SERVICE)
  // Without a known server that has the key, this is a warning, not a problem.
  expect((await clinic.examine()).of('credentials')).toStartWith("warning: 1 stored credential can't be decrypted here")
  clinic.serve({ upstreams }, SERVICE)
  for (const environment of [{}, OTHER]) {
    clinic.bench.environment = environment
    const { code, of } = await clinic.examine()
    expect([code, of('credentials')]).toEqual([0, expect.stringMatching(/^ok: .* TOLLGATE_SECRET .*running server/)])
  }
})

const upstreams = [toUpstreamStatus('here'), toUpstreamStatus('keyed')]

describe('a typed key', () => {
  const edit = (environment: Record<string, string> = {}) => {
    clinic.bench.environment = environment
    clinic.bench.piped = `${SECRET}-anew`
    return clinic.run('upstreams', 'edit', 'keyed', '--key-stdin')
  }
  const sealed = () => clinic.database().query('SELECT upstream, sealed FROM upstream_credentials').values()

  test.each([
    ['its variable', SERVICE, false],
    ['the file', {}, true],
  ])('is sealed by the running server, by %s, whatever this environment has', async (_, service, hasFile) => {
    await typeIn(service)
    clinic.serve({ upstreams }, service)
    for (const environment of [{}, OTHER, SERVICE]) {
      const before = sealed()
      expect(await edit(environment)).toMatchObject({ code: 0 })
      expect(sealed()).not.toEqual(before)
      expect(existsSync(clinic.path('secret'))).toBe(hasFile)
    }
    const { problems } = await inspectVault(createConfigStore(clinic.database()), clinic.folder, service)
    expect(problems).toEqual([])
  })

  test('is not re-encrypted if neither this environment nor the server can decrypt existing credentials', async () => {
    await typeIn(SERVICE)
    for (const environment of [{}, OTHER])
      expect(await edit(environment)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('none of which can be decrypted here'),
      })
    expect(existsSync(clinic.path('secret'))).toBe(false)
    clinic.serve({ upstreams })
    expect((await edit()).code).toBe(0)
    expect(existsSync(clinic.path('secret'))).toBe(true)
  })
})
