/** One upstream: how it is and was, why it failed, how it is set up, and what can be done with it. */
import { useState } from 'preact/hooks'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { toLatency } from '../figures/counts.ts'
import { toLimitsText } from '../keys/words.ts'
import { Button } from '../ui/button.tsx'
import { State, When } from '../ui/figure.tsx'
import { Overlay } from '../ui/overlay.tsx'
import { FactsRoom, Unread } from '../ui/unread.tsx'
import { EditUpstream, RemoveUpstream } from './change.tsx'
import { useUpstreams } from './data.ts'
import { Failures, LastError } from './failures.tsx'
import { Strip } from './strip.tsx'
import { TestButton } from './test-button.tsx'
import {
  toBreaker,
  toCredential,
  toCredentialOfSeveral,
  toFailedText,
  toOriginWord,
  toServer,
  toUpstreamState,
} from './words.ts'

export function UpstreamDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: upstreams, problem, reload } = useUpstreams()
  const upstream = upstreams?.find((one) => one.id === id)
  const [open, setOpen] = useState<'edit' | 'remove' | null>(null)
  const close = () => setOpen(null)
  return (
    <Overlay kind="drawer" title={id} onClose={onClose}>
      <Unread of={upstreams} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {upstreams !== null && upstream === undefined && (
        <p>There is no upstream of this name. It may have been removed.</p>
      )}
      {upstream && (
        <>
          <Standing of={upstream} />
          {may('editor') && upstream.enabled && <TestButton ids={[id]} label="Test it now" />}
          <Strip id={id} />
          <p>
            <a href={toHref(`/requests?upstream=${encodeURIComponent(id)}`)}>Its requests</a>
          </p>
          <Targets of={upstream} />
          <LastError of={upstream} />
          <Facts of={upstream} />
          {may('owner') && (
            <div class="form-foot">
              <Button onClick={() => setOpen('edit')}>Edit</Button>
              {upstream.origin === 'admin' && (
                <Button kind="bad" onClick={() => setOpen('remove')}>
                  Remove
                </Button>
              )}
            </div>
          )}
          <Failures id={id} />
          {open === 'edit' && <EditUpstream of={upstream} onClose={close} />}
          {open === 'remove' && <RemoveUpstream of={upstream} onClose={close} onGone={onClose} />}
        </>
      )}
    </Overlay>
  )
}

function Standing({ of: upstream }: { of: ShownUpstream }) {
  const { kind, word } = toUpstreamState(upstream)
  return (
    <div>
      <p>
        <State kind={kind}>{word}</State>
        {upstream.last_ok_ms !== null && (
          <span class="dim">
            {' '}
            · last answer <When ms={upstream.last_ok_ms} />
          </span>
        )}
      </p>
      {upstream.reason && <p class="reason">{upstream.reason}</p>}
    </div>
  )
}

/** More would be no list to look through: the page of models has all. */
const TARGETS_SHOWN = 20

function Targets({ of: { id, targets } }: { of: ShownUpstream }) {
  const first = targets.toSorted((a, b) => Number(a.breaker === 'closed') - Number(b.breaker === 'closed'))
  return (
    <section class="part">
      <h3>Models and their breakers</h3>
      {targets.length === 0 ? (
        <p class="dim">No model has a route to it.</p>
      ) : (
        <ul class="targets">
          {first.slice(0, TARGETS_SHOWN).map((target) => {
            const { kind, word } = toBreaker(target)
            const { failures_in_a_row: failed, reason } = target
            const why = [toFailedText(failed), reason ?? ''].filter(Boolean).join('; ')
            return (
              <li key={`${target.model} ${target.upstream_model}`}>
                <a href={toHref(`/models?model=${encodeURIComponent(target.model)}`)}>{target.model}</a>
                <State kind={kind}>{word}</State>
                {why !== '' && <p class="hint">{why}</p>}
              </li>
            )
          })}
        </ul>
      )}
      {targets.length > TARGETS_SHOWN && (
        <p>
          <a href={toHref(`/models?upstream=${encodeURIComponent(id)}`)}>All {targets.length} models</a>
        </p>
      )}
    </section>
  )
}

function Facts({ of: upstream }: { of: ShownUpstream }) {
  const { dialect, preset, base_url, local, deadlines, credential, credentials, origin, process: server } = upstream
  const { kind, word } = toCredential(credential)
  return (
    <section class="part">
      <h3>How it is set up</h3>
      <dl class="facts">
        <dt>Address</dt>
        <dd>{server ? 'started here' : base_url === null ? 'within this server' : <code>{base_url}</code>}</dd>
        {server && <dt>Its server</dt>}
        {server && (
          <dd>
            <State kind={toServer(server).kind}>{toServer(server).word}</State>
            {server.reason !== null && <p class="under">{server.reason}</p>}
          </dd>
        )}
        <dt>Provider</dt>
        <dd>{preset === null ? `any that speaks the ${dialect} dialect` : `${preset} (${dialect})`}</dd>
        <dt>Credential</dt>
        <dd>
          {credential === null ? word : credentials.length < 2 ? <State kind={kind}>{word}</State> : null}
          {credentials.length > 1 && (
            <ul class="targets">
              {credentials.map((each) => {
                const told = toCredentialOfSeveral(each)
                return (
                  <li key={each.number}>
                    <State kind={told.kind}>{told.word}</State>
                    {each.reason && <p class="hint">{each.reason}</p>}
                  </li>
                )
              })}
            </ul>
          )}
        </dd>
        <dt>Local</dt>
        <dd>{local ? 'yes: it costs nothing, and keys for local models may use it' : 'no'}</dd>
        <dt>Limits</dt>
        <dd>{toLimitsText(upstream.limits) || 'none'}</dd>
        <dt>Deadlines</dt>
        <dd>
          headers {toLatency(deadlines.headers_ms)}, first token {toLatency(deadlines.first_token_ms)}, between tokens{' '}
          {toLatency(deadlines.idle_ms)}, all of a stream {toLatency(deadlines.total_ms)}, of a whole answer{' '}
          {toLatency(deadlines.total_whole_ms)}
        </dd>
        <dt>From</dt>
        <dd>{toOriginWord(origin)}</dd>
      </dl>
    </section>
  )
}
