/** What narrows the list of requests. */
import { toHref } from '../address/address.ts'
import { isMember } from '../api/session.ts'
import { toMoment } from '../figures/times.ts'
import { useKeys, useModels } from '../keys/data.ts'
import { nowMs } from '../ui/figure.tsx'
import { Choice, type Option, withChosen } from '../ui/filters.tsx'
import { FILTER_NAMES, type RequestFilters, STATES, TIMES } from './filters.ts'

/** What is not offered, and may come with a link. */
const FROM_LINKS = [
  ['upstream', 'Upstream', 'All upstreams'],
  ['team', 'Team', 'All teams'],
  ['user', 'User', 'All users'],
  ['error_code', 'Error', 'All errors'],
] as const

/** Links say a time in ms. */
const toTimeText = (word: string, text: string) =>
  /^\d+$/.test(text) ? `${word} ${toMoment(Number(text), nowMs.value)}` : text

export function Narrow({ filters }: { filters: RequestFilters }) {
  const keys = useKeys().data ?? []
  const models = useModels().data ?? []
  const isNarrow = FILTER_NAMES.some((name) => filters[name] !== '')
  return (
    <search class="filters">
      <Choice
        name="key"
        restarts="before"
        label="Key"
        value={filters.key}
        options={withChosen([['', 'All keys'], ...keys.map(({ id, name }): Option => [id, name])], filters.key)}
      />
      <Choice
        name="model"
        restarts="before"
        label="Model"
        value={filters.model}
        options={withChosen([['', 'All models'], ...models.map(({ slug }): Option => [slug, slug])], filters.model)}
      />
      <Choice name="state" restarts="before" label="State" value={filters.state} options={STATES} />
      <Choice
        name="since"
        restarts="before"
        label="Time"
        value={filters.since}
        options={withChosen(TIMES, filters.since, toTimeText('Since', filters.since))}
      />
      {filters.until !== '' && (
        <Choice
          name="until"
          restarts="before"
          label="Until"
          value={filters.until}
          options={withChosen([['', 'Until now']], filters.until, toTimeText('Until', filters.until))}
        />
      )}
      {FROM_LINKS.map(
        ([name, label, all]) =>
          filters[name] !== '' &&
          !isMember() && (
            <Choice
              key={name}
              name={name}
              restarts="before"
              label={label}
              value={filters[name]}
              options={withChosen([['', all]], filters[name])}
            />
          ),
      )}
      {isNarrow && <a href={toHref('/requests')}>Show all</a>}
    </search>
  )
}
