/** What the page of the APIs reads: their descriptions, as the server gives them to everybody and to tools. */
import { ask } from '../api/client.ts'
import { useLoaded } from '../api/loaded.ts'
import { may } from '../api/session.ts'
import { type ApiDocument, toGroups } from './routes.ts'

export interface Described {
  /** In the address. */
  name: 'v1' | 'admin'
  title: string
  url: string
  /** What it is called once it is downloaded. */
  file: string
}

const V1: Described = { name: 'v1', title: 'For models', url: '/v1/openapi.json', file: 'tollgate-v1.json' }
const ADMIN: Described = {
  name: 'admin',
  title: 'For administration',
  url: '/admin/api/openapi.json',
  file: 'tollgate-admin.json',
}

/** Those that whoever has signed in may see. */
export const toDescribed = (): readonly Described[] => (may('viewer') ? [V1, ADMIN] : [V1])

export const useDescription = ({ name, url }: Described) =>
  useLoaded(`reference/${name}`, async () => {
    const document: ApiDocument = await ask(read(url))
    return { ...document, groups: toGroups(document) }
  })

export type Description = NonNullable<ReturnType<typeof useDescription>['data']>

async function read(url: string) {
  const response = await fetch(url)
  const said = await response.json().catch(() => null)
  const { ok, status } = response
  return { data: ok ? said : null, error: ok ? null : { value: said }, status }
}
