/**
 * Responses of the built executable without credentials: no page for another site, no file, no other host, no false
 * client address.
 */
import { beforeAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import { createWorkplace } from '../support/binary.ts'
import { forAllTests } from '../support/lifetime.ts'
import { askRaw, type RawRequest } from '../support/raw.ts'

let origin: string
const work = forAllTests(createWorkplace)
beforeAll(async () => {
  const server = await work.serve(['--public-url', 'https://gateway.example.com', '--cors-origin', '*'])
  origin = new URL(server.baseUrl).origin
})

type Lines = RawRequest['headers']
const ask = (path: string, headers: Lines = []) => askRaw(origin, path, { headers })

/** A wrong password; the response shows which address it counts for. */
const guess = async (headers: NonNullable<Lines>, at = origin, page = at) => {
  const body = JSON.stringify({ name: 'nobody', password: 'not the right one' })
  const all = [['origin', page] as const, ['content-type', 'application/json'] as const, ...headers]
  const { status } = await askRaw(at, '/admin/api/session', { method: 'POST', headers: all, body })
  return status
}

test('every page and every response forbids framing, sniffing, and reads by other sites', async () => {
  const paths = [
    ...['/admin', '/admin/', '/admin/keys', '/admin/api', '/admin/assets/', '/admin/assets/nothing.js'],
    ...['/admin/api/', '/admin/api/session', '/admin/api/keys', '/admin/api/nothing', '/admin/api/%zz'],
    ...['/admin/api/openapi.json', '/admin/api/requests/live', '/admin/api/backups/x', '/admin/api/oidc'],
  ]
  for (const path of paths)
    for (const more of [[], [['host', 'rebound.example.com']], [['origin', 'https://evil.example.com']]] as const) {
      const { headers } = await ask(path, more)
      const said = ['x-content-type-options', 'x-frame-options', 'access-control-allow-origin'].map((name) =>
        headers.get(name),
      )
      expect([path, more, said]).toEqual([path, more, ['nosniff', 'DENY', null]])
      // No private data are cached by a browser or a proxy.
      expect(headers.get('cache-control')).toMatch(/^no-(store|cache)$/)
      if (path.startsWith('/admin/api/'))
        expect(headers.get('content-security-policy')).toStartWith("default-src 'none'")
    }
})

describe('a host name that an attacker has resolved to this machine', () => {
  test.each<[string, Lines]>([
    ['is no host', [['host', 'rebound.example.com']]],
    ['is none with a port', [['host', 'rebound.example.com:4000']]],
    ['is none by what it begins with', [['host', '127.0.0.1.example.com']]],
    ['is none by what it ends with', [['host', 'evil-gateway.example.com']]],
    ['is none with somebody before it', [['host', '127.0.0.1@rebound.example.com']]],
    ['is none in the network', [['host', '192.168.1.5']]],
    [
      'is none by what a proxy could say',
      [
        ['host', 'rebound.example.com'],
        ['x-forwarded-host', '127.0.0.1'],
      ],
    ],
    [
      'is none by what a proxy could say otherwise',
      [
        ['host', 'rebound.example.com'],
        ['forwarded', 'host=127.0.0.1'],
      ],
    ],
    [
      'is none beside another',
      [
        ['host', 'rebound.example.com'],
        ['host', '127.0.0.1'],
      ],
    ],
    ['is none where there is no name', [['host', '']]],
  ])('%s', async (_, headers) => {
    const { status, body } = await ask('/admin/api/session', headers)
    expect(status).toBeGreaterThanOrEqual(400)
    expect(body.toString()).not.toContain('is_set_up')
  })

  test('is refused as an absolute URL in place of the path', async () => {
    const { status, body } = await ask('http://127.0.0.1/admin/api/session', [['host', 'rebound.example.com']])
    expect(status).toBeGreaterThanOrEqual(400)
    expect(body.toString()).not.toContain('is_set_up')
  })
})

describe('no file can be read', () => {
  const UP = ['..', '%2e%2e', '%2E.', '..%00', '%252e%252e', '..;', '%c0%ae%c0%ae', '%uff0e%uff0e']
  const SLASHES = ['/', '%2f', '%5c', '\\', '//', '%252f']
  const roots = [
    '/admin/assets/',
    '/admin/assets',
    '/admin/',
    '/admin/api/backups/',
    '/admin/api/models/',
    '/admin/api/',
  ]
  test.each(roots)('below %s', async (root) => {
    for (const up of UP)
      for (const slash of SLASHES)
        for (const file of ['etc/passwd', 'package.json', 'data/secret', 'tollgate.db']) {
          const path = `${root}${slash}${`${up}${slash}`.repeat(8)}${file.replaceAll('/', slash)}`
          const { status, body } = await ask(path)
          const text = body.toString('latin1')
          expect([path, /root:|"dependencies"|SQLite format|^[\da-f]{64}/.test(text)]).toEqual([path, false])
          // Any unknown path below the dashboard's is the same page.
          expect([path, status >= 400 || text.includes('<div id="app">')]).toEqual([path, true])
        }
  })

  test.each(['index.html', 'nothing.js', '__proto__', 'constructor', 'toString', '%00', ''])(
    'nor is %j an asset',
    async (name) => expect((await ask(`/admin/assets/${name}`)).status).toBe(404),
  )
})

describe("a client's address", () => {
  test('is not the one it claims, unless a trusted proxy sends it', async () => {
    const statuses: number[] = []
    for (let i = 0; i < 6; i++) statuses.push(await guess([['x-forwarded-for', `198.51.100.${i}`]]))
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429])
    const { stdout } = await work.run('doctor')
    expect(stdout).toMatch(/proxy.*127\.0\.0\.1 sends X-Forwarded-For, which is ignored/)
  })

  test("is known behind the documented proxies, so no visitor can block another's sign-in", async () => {
    const read = (page: string) => Bun.file(join(import.meta.dir, '../../docs', page)).text()
    const flags = /^tollgate serve (--public-url .+)$/m.exec(await read('dashboard.md'))?.[1]?.split(' ') ?? []
    // Without it, nginx sends the server's address as the host.
    expect(/```nginx\n(.*?)```/s.exec(await read('https.md'))?.[1]).toContain('proxy_set_header Host $host;')
    const behind = createWorkplace()
    try {
      const at = new URL((await behind.serve(flags)).baseUrl).origin
      const name = 'gateway.example.com'
      const from = (client: string) =>
        guess(
          [
            ['host', name],
            ['x-forwarded-for', client],
          ],
          at,
          `https://${name}`,
        )
      for (let i = 0; i < 5; i++) expect(await from('198.51.100.1')).toBe(401)
      expect(await from('198.51.100.1')).toBe(429)
      expect(await from('198.51.100.2')).toBe(401)
    } finally {
      await behind.close()
    }
  })

  test('is the one that the nearest trusted proxy reports, whatever precedes it', async () => {
    const behind = createWorkplace()
    try {
      const server = await behind.serve(['--trusted-proxy', '127.0.0.1'])
      const at = new URL(server.baseUrl).origin
      const from = (client: string, i: number) => guess([['x-forwarded-for', `203.0.113.${i}, ${client}`]], at)
      for (let i = 0; i < 5; i++) expect(await from('198.51.100.1', i)).toBe(401)
      expect(await from('198.51.100.1', 9)).toBe(429)
      expect(await from('198.51.100.2', 0)).toBe(401)
    } finally {
      await behind.close()
    }
  })
})
