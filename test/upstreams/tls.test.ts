/** Upstreams over TLS: requests are sent only if the certificate is valid. */
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { resolve } from 'node:path'

const FOLDER = resolve(import.meta.dir, '../fixtures/tls')
const file = (name: string) => Bun.file(`${FOLDER}/${name}`)

/** Bodies that reached a server. */
let heard: string[] = []
const servers = new Map<string, Bun.Server<undefined>>()
beforeAll(() => {
  for (const name of ['good', 'other-name', 'expired', 'self-signed'])
    servers.set(
      name,
      Bun.serve({
        port: 0,
        hostname: '127.0.0.1',
        tls: { key: file('server.key'), cert: file(`${name}.pem`) },
        async fetch(request) {
          heard.push(`${name} ${await request.text()}`)
          return new Response('hello')
        },
      }),
    )
})
afterAll(async () => {
  for (const server of servers.values()) await server.stop(true)
})

const urlOf = (name: string, host = 'localhost') => `https://${host}:${servers.get(name)?.port}/v1`

async function ask(which: string, urls: string[], environment: Record<string, string>): Promise<string[]> {
  const script = resolve(import.meta.dir, 'tls-ask.ts')
  const child = Bun.spawn([process.execPath, script, which, ...urls], {
    stdout: 'pipe',
    env: { ...process.env, ...environment },
  })
  return JSON.parse(await child.stdout.text())
}

test.each(['own', 'fetch'])('%s: the certificate is verified before a byte of a request is sent', async (which) => {
  heard = []
  const urls = [
    urlOf('good'),
    urlOf('good', '127.0.0.1'),
    urlOf('other-name', '127.0.0.1'),
    ...['other-name', 'expired', 'self-signed'].map((name) => urlOf(name)),
  ]
  const trusting = await ask(which, urls, { NODE_EXTRA_CA_CERTS: `${FOLDER}/authority.pem` })
  expect(trusting).toEqual([
    '200 hello',
    '200 hello',
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'ERR_TLS_CERT_ALTNAME_INVALID',
    'CERT_HAS_EXPIRED',
    'DEPTH_ZERO_SELF_SIGNED_CERT',
  ])
  expect(await ask(which, [urlOf('good')], {})).toEqual(['UNABLE_TO_VERIFY_LEAF_SIGNATURE'])
  expect(heard).toEqual(['good {}', 'good {}'])
})
