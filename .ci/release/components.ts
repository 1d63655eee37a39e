/** What is inside the executable: packages of bun.lock that `dependencies` need, and Bun. As an SBOM, and with licenses. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

export interface Component {
  /** Package URL. */
  purl: string
  name: string
  version: string
  /** SPDX expression. */
  license: string
  licenseText: string
  /** SHA-512 of its package, in hex; null if it was none. */
  sha512: string | null
  /** Package URLs. */
  needs: string[]
}

interface Locked {
  name: string
  version: string
  integrity: string
  needs: string[]
}

interface Lock {
  workspaces: { '': { dependencies: Record<string, string>; devDependencies: Record<string, string> } }
  packages: Record<
    string,
    [
      spec: string,
      registry: string,
      info: Partial<Record<'dependencies' | 'peerDependencies', Record<string, string>>> & { optionalPeers?: string[] },
      integrity: string,
    ]
  >
}

/** By their place: `tsyringe/tslib` is the `tslib` that only `tsyringe` uses. */
export function listLocked(text: string): Map<string, Locked> {
  // bun.lock is JSON with trailing commas.
  const lock: Lock = JSON.parse(text.replace(/,(\s*[}\]])/g, '$1'))
  const { dependencies, devDependencies } = lock.workspaces['']
  const found = new Map<string, Locked>()
  const open = Object.keys(dependencies).map((name) => ({ name, by: '' }))
  for (const { name, by } of open) {
    const place = findPlace(lock, name, by)
    if (place === null || found.has(place)) continue
    const [spec, , info, integrity] = lock.packages[place] ?? ['', '', {}, '']
    const peers = Object.keys(info.peerDependencies ?? {}).filter((peer) => !info.optionalPeers?.includes(peer))
    // A peer that only development needs, such as a compiler, is not built in.
    const names = [...Object.keys(info.dependencies ?? {}), ...peers].filter((one) => !(one in devDependencies))
    const at = spec.lastIndexOf('@')
    const needs = names.flatMap((one) => findPlace(lock, one, place) ?? [])
    found.set(place, { name: spec.slice(0, at), version: spec.slice(at + 1), integrity, needs })
    open.push(...names.map((one) => ({ name: one, by: place })))
  }
  return found
}

const toNames = (place: string) => place.match(/(?:@[^/]+\/)?[^/]+/g) ?? []

/** The nearest one, as modules are resolved. */
function findPlace({ packages }: Lock, name: string, by: string): string | null {
  const names = toNames(by)
  for (let depth = names.length; depth >= 0; depth--) {
    const place = [...names.slice(0, depth), name].join('/')
    if (place in packages) return place
  }
  return null
}

/** @param root of the repository, with its dependencies installed. */
export function listComponents(root: string, bun: Component): Component[] {
  const locked = listLocked(readFileSync(join(root, 'bun.lock'), 'utf8'))
  const toPurl = ({ name, version }: Locked) => `pkg:npm/${name.replace('@', '%40')}@${version}`
  const purlAt = (place: string) => locked.get(place)
  const components = [...locked].map(([place, one]): Component => {
    const folder = join(root, 'node_modules', toNames(place).join('/node_modules/'))
    const { license = '' } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
    if (typeof license !== 'string' || license === '') throw new Error(`${one.name} declares no license.`)
    return {
      ...{ purl: toPurl(one), name: one.name, version: one.version, license },
      licenseText: readLicense(folder) ?? `The package has no license file. It declares: ${license}.\n`,
      sha512: Buffer.from(one.integrity.replace(/^sha512-/, ''), 'base64').toString('hex'),
      needs: one.needs.flatMap((need) => purlAt(need) ?? []).map(toPurl),
    }
  })
  const licenseOf = (name: string) => readFileSync(join(root, 'src/catalog', name), 'utf8')
  return [
    ...components.toSorted((a, b) => (a.purl < b.purl ? -1 : 1)),
    bun,
    {
      ...{ purl: 'pkg:generic/models.dev', name: 'models.dev', version: 'snapshot', license: 'MIT' },
      ...{ licenseText: licenseOf('known.LICENSE'), sha512: null, needs: [] },
    },
    {
      ...{ purl: 'pkg:generic/litellm-prices', name: 'prices of LiteLLM', version: 'snapshot', license: 'MIT' },
      ...{ licenseText: licenseOf('known-prices.LICENSE'), sha512: null, needs: [] },
    },
  ]
}

/** With notices. */
function readLicense(folder: string): string | null {
  const names = readdirSync(folder).filter((name) => /^(licen[sc]e|copying|notice)(\.|$)/i.test(name))
  const texts = names.toSorted().map((name) => readFileSync(join(folder, name), 'utf8').trim())
  return texts.length === 0 ? null : `${texts.join('\n\n')}\n`
}

const RULE = '='.repeat(80)

/** One text for all. */
export function toLicenses(root: string, components: readonly Component[]): string {
  const own = readFileSync(join(root, 'LICENSE'), 'utf8')
  const parts = components.map(
    ({ name, version, license, licenseText }) => `${RULE}\n${name} ${version} (${license})\n${RULE}\n\n${licenseText}`,
  )
  return [`${own.trim()}\n\n\nThis program contains the following works under their own licenses.\n`, ...parts].join(
    '\n',
  )
}

interface Subject {
  version: string
  commit: string
  /** Of the commit. */
  time: Date
}

/** CycloneDX 1.6. The same commit gets the same document. */
export function toSbom(components: readonly Component[], { version, commit, time }: Subject): object {
  const own = `pkg:generic/tollgate@${version}`
  const id = createHash('sha256').update(`${own} ${commit}`).digest('hex')
  const uuid = `${id.slice(0, 8)}-${id.slice(8, 12)}-5${id.slice(13, 16)}-8${id.slice(17, 20)}-${id.slice(20, 32)}`
  return {
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    serialNumber: `urn:uuid:${uuid}`,
    version: 1,
    metadata: {
      timestamp: time.toISOString(),
      component: {
        ...{ type: 'application', 'bom-ref': own, name: 'tollgate', version, purl: own },
        licenses: [{ license: { id: 'MIT' } }],
        properties: [{ name: 'tollgate:commit', value: commit }],
      },
    },
    components: components.map(({ purl, name, version, license, sha512 }) => ({
      ...{ type: typeOf(purl), 'bom-ref': purl, name, version, purl, scope: 'required' },
      licenses: [/[ ()]/.test(license) ? { expression: license } : { license: { id: license } }],
      ...(sha512 !== null && { hashes: [{ alg: 'SHA-512', content: sha512 }] }),
    })),
    dependencies: [
      { ref: own, dependsOn: components.map(({ purl }) => purl) },
      ...components.map(({ purl, needs }) => ({ ref: purl, dependsOn: needs })),
    ],
  }
}

const typeOf = (purl: string) =>
  purl.startsWith('pkg:npm/') ? 'library' : purl.startsWith('pkg:generic/') ? 'data' : 'platform'
