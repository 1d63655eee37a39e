/** Server settings in force. A value comes from the first of: flag, environment (`TOLLGATE_<FLAG>`), settings row, default. */

import { toPostgresUrl } from './domain/postgres-url.ts'
import { toBadConfig } from './domain/service-error.ts'
import { withoutSecrets } from './domain/setting-text.ts'
import { MAX_IN_FLIGHT, SETTING_GROUPS, SETTINGS, type SettingDefinition } from './settings.ts'

type Values = {
  [Field in keyof typeof SETTINGS]: (typeof SETTINGS)[Field] extends SettingDefinition<infer V> ? V : never
}
export interface ServeConfig extends Values {
  /** Only from the environment: other users can read arguments. */
  oidcClientSecret: string | null
}

type Texts = Readonly<Record<string, string | undefined>>

interface ConfigSources {
  /** By flag name without the dashes. */
  flags: Texts
  environment: Texts
  /** Rows of the settings table, by flag name. */
  settings: Texts
}

type SettingPlace = 'flag' | 'environment' | 'setting' | 'default'

/** A setting with its effective text. */
export interface SettingText
  extends Pick<SettingDefinition<unknown>, 'name' | 'group' | 'description' | 'byDefault' | 'expected'> {
  /** Null = none. */
  text: string | null
  place: SettingPlace
}

const ALL: readonly SettingDefinition<unknown>[] = Object.values(SETTINGS)
export const WITHOUT_ROW: readonly string[] = ALL.flatMap(({ name, withoutRow }) => (withoutRow ? name : []))

/** Throws one ServiceError that names every invalid setting and its source. */
export function toServeConfig(sources: ConfigSources): ServeConfig {
  const problems = ALL.flatMap((setting) => findProblem(setting, sources) ?? [])
  if (problems.length > 0) throw toBadConfig(problems)
  const values = Object.entries(SETTINGS).map(([field, setting]) => [field, toValue(setting, sources)])
  const config = Object.fromEntries(values) as Values
  const tlsProblems = findTlsProblems(config)
  if (tlsProblems.length > 0) throw toBadConfig(tlsProblems)
  const alone = config.cluster === null ? findAlone(config) : []
  if (alone.length > 0) throw toBadConfig(alone)
  for (const { name } of [SETTINGS.cluster, SETTINGS.limits])
    if (hasPassword(sources.flags[name])) throw toBadConfig([toNoPassword(name)])
  const oidcClientSecret = sources.environment[toVariableName('oidc-client-secret')] || null
  return { ...config, oidcClientSecret }
}

/** Only the disk budget: other settings may be wrong, or depend on flags of the server. Null = the whole disk. */
export function toDiskBytes(sources: ConfigSources): number | null {
  const problem = findProblem(SETTINGS.diskBytes, sources)
  if (problem !== null) throw toBadConfig([problem])
  const text = findText(SETTINGS.diskBytes, sources)?.text
  return text === undefined ? null : SETTINGS.diskBytes.read(text)
}

const hasPassword = (url = '') => (toPostgresUrl(url)?.password ?? URL.parse(url)?.password ?? '') !== ''
const toNoPassword = (name: string) =>
  `--${name} must not have a password, since other users can read arguments. Set ${toVariableName(name)} instead, or put the URL in a file and name that.`

/** Settings that need a cluster. */
const findAlone = ({ durability, limits }: Values): string[] => [
  ...(durability === 'shared'
    ? ['--durability shared needs --cluster: outcomes are also recorded in its PostgreSQL.']
    : []),
  ...(limits === null ? [] : ['--limits needs --cluster: without other nodes, no limits are shared.']),
]

function findTlsProblems({ tlsCerts, tlsKeys, tlsDomains, httpRedirect }: Values): string[] {
  const problems: string[] = []
  if (tlsCerts.length !== tlsKeys.length)
    problems.push(`Each --tls-cert needs its --tls-key (got ${tlsCerts.length} and ${tlsKeys.length}).`)
  if (httpRedirect !== null && tlsCerts.length + tlsDomains.length === 0)
    problems.push('--http-redirect needs --tls-cert and --tls-key, or --tls-domain.')
  return problems
}

/** The settings that can have rows, with effective text and source. */
export const toSettingTexts = (sources: ConfigSources): SettingText[] =>
  SETTING_GROUPS.flatMap((group) => ALL.filter((one) => one.group === group && !one.withoutRow)).map((setting) => {
    const found = findText(setting, sources)
    const { name, group, description, byDefault, expected } = setting
    return {
      ...{ name, group, description, byDefault, expected },
      ...{ text: found?.text ?? byDefault, place: found?.place ?? 'default' },
    }
  })

/** Checks a row of the settings table; null if valid. */
export function findSettingProblem(name: string, text: string): string | null {
  const setting = ALL.find((one) => one.name === name)
  return setting ? findProblem(setting, { flags: {}, environment: {}, settings: { [name]: text } }) : null
}

function findProblem(setting: SettingDefinition<unknown>, sources: ConfigSources): string | null {
  const found = findText(setting, sources)
  if (found === null || setting.read(found.text) !== null) return null
  return `${PLACE_NAMES[found.place](setting.name)} must be ${setting.expected} (got '${withoutSecrets(found.text)}').`
}

function toValue(setting: SettingDefinition<unknown>, sources: ConfigSources): unknown {
  const text = findText(setting, sources)?.text ?? setting.byDefault
  return text === null ? setting.none : setting.read(text)
}

function findText(
  { name, was, withoutRow }: SettingDefinition<unknown>,
  { flags, environment, settings }: ConfigSources,
): { text: string; place: SettingPlace } | null {
  const places: [text: string | undefined, place: SettingPlace][] = [
    [flags[name], 'flag'],
    [environment[toVariableName(name)] || (was && environment[toVariableName(was)]) || undefined, 'environment'],
    [withoutRow ? undefined : settings[name], 'setting'],
  ]
  for (const [text, place] of places) if (text !== undefined) return { text, place }
  return null
}

export const toVariableName = (flag: string) => `TOLLGATE_${flag.replaceAll('-', '_').toUpperCase()}`

const PLACE_NAMES: Readonly<Record<SettingPlace, (name: string) => string>> = {
  flag: (name) => `--${name}`,
  environment: toVariableName,
  setting: (name) => `the setting ${name}`,
  default: (name) => `the default of ${name}`,
}

/** Bun's limit on concurrent `fetch` calls; further calls queue invisibly. */
export const FETCHES = {
  /** Read by the runtime at process start, only from the environment. */
  variable: 'BUN_CONFIG_MAX_HTTP_REQUESTS',
  /** Default of the runtime. */
  most: 256,
  /** Used if all upstreams are called with `fetch`: some requests make several calls. */
  raised: 2 * MAX_IN_FLIGHT,
  /** Reserved for health checks. */
  probes: 56,
}

/** Maximum concurrent calls of this process by `fetch`. */
export const toFetchPlaces = (environment: Texts): number =>
  Math.max(1, (Number(environment[FETCHES.variable]) || FETCHES.most) - FETCHES.probes)

/** True if the environment has a proxy variable that `fetch` reads. */
export const hasProxy = (environment: Texts): boolean =>
  ['HTTP_PROXY', 'HTTPS_PROXY', 'http_proxy', 'https_proxy'].some((name) => Boolean(environment[name]))
