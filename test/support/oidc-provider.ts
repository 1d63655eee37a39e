/** A third-party provider (`oidc-provider`) with its own sign-in pages. */
import Provider from 'oidc-provider'
import { findFreePort } from './free-port.ts'

export interface OidcProviderOptions {
  clientId: string
  clientSecret: string
  /** Redirect target. */
  redirectUri: string
  /** Claims by user name; other users have only their name. */
  people: Record<string, Record<string, unknown>>
}

export async function startOidcProvider({ clientId, clientSecret, redirectUri, people }: OidcProviderOptions) {
  const port = await findFreePort()
  // A different site from 127.0.0.1, for browsers.
  const issuer = `http://localhost:${port}`
  const provider = new Provider(issuer, {
    clients: [{ client_id: clientId, client_secret: clientSecret, redirect_uris: [redirectUri] }],
    claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['preferred_username', 'groups'] },
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people[id] }) }),
    ttl: { Session: 600, Interaction: 600, Grant: 600, AccessToken: 600, IdToken: 600 },
    cookies: { keys: ['of a test'] },
  })
  const listening = Promise.withResolvers<void>()
  const server = provider.listen(port, '127.0.0.1', listening.resolve)
  await listening.promise
  return {
    issuer,
    stop() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** Goes through its pages with cookies; returns the final redirect. */
export async function signInThere(location: string, name: string, issuer: string): Promise<URL> {
  const cookies = new Map<string, string>()
  let url = new URL(location)
  let form: string | null = null
  for (let steps = 0; steps < 20 && url.origin === issuer; steps++) {
    const cookie = [...cookies].map(([key, value]) => `${key}=${value}`).join('; ')
    const type = { 'content-type': 'application/x-www-form-urlencoded' }
    const response: Response = await fetch(url, {
      ...(form === null ? { headers: { cookie } } : { method: 'POST', body: form, headers: { cookie, ...type } }),
      redirect: 'manual',
    })
    for (const set of response.headers.getSetCookie()) {
      const [, key = '', value = ''] = /^([^=]+)=([^;]*)/.exec(set) ?? []
      cookies.set(key, value)
    }
    const next = response.headers.get('location')
    form = null
    if (next !== null) {
      url = new URL(next, url)
      continue
    }
    const page = await response.text()
    const action = /action="([^"]+)"/.exec(page)?.[1]
    if (action === undefined) throw new Error(`the provider shows no form: ${response.status} ${page.slice(0, 300)}`)
    const prompt = /name="prompt" value="([^"]+)"/.exec(page)?.[1] ?? 'login'
    url = new URL(action, url)
    form = new URLSearchParams({ prompt, login: name, password: 'any' }).toString()
  }
  return url
}
