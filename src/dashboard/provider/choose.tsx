/** Searchable list of providers; discovered model servers come first. */

import { useEffect } from 'preact/hooks'
import type { ShownFoundServer, ShownPreset } from '../../documents/upstream.ts'
import { open, toHref } from '../address/address.ts'
import { State } from '../ui/figure.tsx'
import { moveBetween, SearchFilter, searched } from '../ui/table.tsx'
import { change, toStep, typedFor } from './draft.ts'
import { filterPresets, OTHER } from './picks.ts'

interface Found {
  servers: readonly ShownFoundServer[]
  providers: readonly { preset: string; variable: string }[]
}

interface Card {
  id: string
  name: string
  serves: string
  /** Why it comes first. */
  mark: string | null
  /** URL of a discovered server. */
  base_url: string | null
}

export function ChooseProvider({ presets, found }: { presets: readonly ShownPreset[]; found: Found | null }) {
  const search = searched()
  const { servers = [], providers = [] } = found ?? {}
  const variableOf = (id: string) => providers.find(({ preset }) => preset === id)?.variable
  const toCard = ({ id, name, serves }: ShownPreset): Card => {
    const variable = variableOf(id)
    return { id, name, serves, mark: variable === undefined ? null : `${variable} is set`, base_url: null }
  }
  /** Providers with a key on the server come first, those that need a custom URL last. */
  const rank = ({ id, base_url: url }: ShownPreset) => (variableOf(id) !== undefined ? 0 : url !== null ? 1 : 2)
  const here = servers.flatMap((server): Card[] => {
    if (server.upstream !== null) return []
    return [{ id: server.preset, name: server.name, serves: server.base_url, mark: 'found', base_url: server.base_url }]
  })
  const isFound = ({ id }: ShownPreset) => here.some((card) => card.id === id)
  const other: Card = {
    ...{ id: OTHER, name: 'Other', serves: 'Any OpenAI-compatible API', mark: null, base_url: null },
  }
  const clouds = presets.filter(({ local }) => !local).toSorted((a, b) => rank(a) - rank(b))
  const cloud = filterPresets([...clouds.map(toCard), other], search)
  const own = filterPresets([...here, ...presets.filter((one) => one.local && !isFound(one)).map(toCard)], search)
  useEffect(() => document.querySelector<HTMLElement>('[data-search]')?.focus(), [])
  const [first = own[0]] = cloud
  const enter = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' || search.trim() === '' || first === undefined) return
    event.preventDefault()
    follow(first)
    open(toStep(first.id))
  }
  return (
    <>
      <search class="filters" onKeyDown={enter}>
        <SearchFilter what="providers" />
      </search>
      <Cards title="Providers" of={cloud} />
      <Cards title="Model servers" of={own} />
      {cloud.length + own.length === 0 && (
        <p class="dim">
          No provider has this name. If it has an OpenAI-compatible API,{' '}
          <a href={toHref(toStep(OTHER))}>enter its URL</a>.
        </p>
      )}
    </>
  )
}

/** Fills in a discovered server's URL. A key typed for another URL is dropped. */
function follow({ id, base_url: url }: Card): void {
  if (url === null) return
  const { id: name, base_url: before, ...typed } = typedFor(id)
  change({
    provider: id,
    found: url,
    typed: { ...(before === url && typed), ...(name !== undefined && { id: name }), base_url: url },
  })
}

const Cards = ({ title, of: cards }: { title: string; of: readonly Card[] }) =>
  cards.length === 0 ? null : (
    <section class="providers">
      <h2>{title}</h2>
      <ul onKeyDown={moveBetween('li')}>
        {cards.map((card) => (
          <li key={`${card.id} ${card.base_url}`}>
            <a href={toHref(toStep(card.id))} onClick={() => follow(card)}>
              <strong>{card.name}</strong>
              <span>{card.serves}</span>
              {card.mark !== null && <State kind="good">{card.mark}</State>}
            </a>
          </li>
        ))}
      </ul>
    </section>
  )
