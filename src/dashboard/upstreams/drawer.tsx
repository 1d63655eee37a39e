/** One upstream: status, errors, configuration, and actions. */
import { useState } from 'preact/hooks'
import type { ShownUpstream } from '../../documents/upstream.ts'
import { DEADLINES } from '../../domain/deadlines.ts'
import { named, setQuery, toHref } from '../address/address.ts'
import { may } from '../api/session.ts'
import { PlannedDialog } from '../catalog/plan.tsx'
import { toLatency } from '../figures/figures.ts'
import { toLimitsText } from '../keys/words.ts'
import { Button } from '../ui/controls.tsx'
import { useEditing } from '../ui/edit.tsx'
import { Fact, State, When } from '../ui/figure.tsx'
import { FactsRoom, Overlay, Problem, Unread } from '../ui/notice.tsx'
import { deleteUpstream, editUpstream, readUpstream, useFailures, useUpstreams } from './data.ts'
import { Moving, UpstreamFields } from './fields.tsx'
import { Strip, TestButton } from './test.tsx'
import {
  losesCredential,
  toBreaker,
  toCredential,
  toCredentialOfSeveral,
  toFailedText,
  toOriginWord,
  toServer,
  toUpstreamState,
  toUpstreamValues,
} from './words.ts'

export function UpstreamDrawer({ id, onClose }: { id: string; onClose(): void }) {
  const { data: upstreams, problem, reload } = useUpstreams()
  const upstream = upstreams?.find((one) => one.id === id)
  const [open, setOpen] = useState<'edit' | 'remove' | null>(named('edit') !== null && may('owner') ? 'edit' : null)
  const close = () => {
    setOpen(null)
    setQuery({ edit: null })
  }
  return (
    <Overlay kind="drawer" title={id} onClose={onClose}>
      <Unread of={upstreams} problem={problem} retry={reload}>
        <FactsRoom />
      </Unread>
      {upstreams !== null && upstream === undefined && <p>No upstream has this name. It may have been removed.</p>}
      {upstream && (
        <>
          <Standing of={upstream} />
          {may('editor') && upstream.enabled && <TestButton ids={[id]} label="Test upstream" />}
          <Strip id={id} />
          <p>
            <a href={toHref(`/requests?upstream=${encodeURIComponent(id)}`)}>View requests</a>
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
            · last response <When ms={upstream.last_ok_ms} />
          </span>
        )}
      </p>
      {upstream.reason && <p class="reason">{upstream.reason}</p>}
    </div>
  )
}

/** The model page lists all. */
const TARGETS_SHOWN = 20

function Targets({ of: { id, targets } }: { of: ShownUpstream }) {
  const first = targets.toSorted((a, b) => Number(a.breaker === 'closed') - Number(b.breaker === 'closed'))
  return (
    <section class="part">
      <h3>Models and circuit breakers</h3>
      {targets.length === 0 ? (
        <p class="dim">No model has a route to this upstream.</p>
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
      <h3>Configuration</h3>
      <dl class="facts">
        <Fact name="Base URL">
          {server ? 'started by Tollgate' : base_url === null ? 'built in' : <code>{base_url}</code>}
        </Fact>
        {server && (
          <Fact name="Model server">
            <State kind={toServer(server).kind}>{toServer(server).word}</State>
            {server.reason !== null && <p class="under">{server.reason}</p>}
          </Fact>
        )}
        <Fact name="Provider">{preset === null ? `custom (${dialect} API format)` : `${preset} (${dialect})`}</Fact>
        <Fact name="Credential">
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
        </Fact>
        <Fact name="Local">{local ? 'yes: free, and allowed for local-only keys' : 'no'}</Fact>
        <Fact name="Limits">{toLimitsText(upstream.limits) || 'none'}</Fact>
        <Fact name="Timeouts">
          {Object.values(DEADLINES)
            .map(({ label, field }) => `${label} ${toLatency(deadlines[`${field}_ms`])}`)
            .join(', ')}
        </Fact>
        <Fact name="Source">{toOriginWord(origin)}</Fact>
      </dl>
    </section>
  )
}

const LastError = ({ of: { last_error: error } }: { of: ShownUpstream }) => (
  <section class="part">
    <h3>Last error</h3>
    {error === null ? (
      <p class="dim">None since the server started.</p>
    ) : (
      <div class="last-error">
        <p class="dim">
          <When ms={error.at_ms} />
        </p>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard */}
        <pre tabIndex={0}>{error.message}</pre>
      </div>
    )}
  </section>
)

/** Last in the drawer, because it loads separately and would move content below. */
function Failures({ id }: { id: string }) {
  const { data: requests, problem, reload } = useFailures(id)
  const link = (extra: string) => toHref(`/requests?upstream=${encodeURIComponent(id)}${extra}`)
  return (
    <section class="part">
      <h3>Requests</h3>
      <p class="links">
        <a href={link('')}>All requests</a>
        <a href={link('&state=errors')}>Failed requests</a>
      </p>
      {problem && <Problem of={problem} retry={reload} />}
      {requests !== null && (
        <ul class="failures">
          {requests.map((request) => (
            <li key={request.id}>
              <a href={toHref(`/requests/${request.id}`)}>
                <When ms={request.created_ms} />
              </a>
              <span>
                {request.model} <span class="dim">{request.key ?? ''}</span>
              </span>
              <span class="dim">
                {[request.http_status, request.error_code ?? request.status].filter(Boolean).join(' ')}
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

interface ChangeProps {
  of: ShownUpstream
  onClose(): void
}

function EditUpstream({ of, onClose }: ChangeProps) {
  const { id } = of
  const editing = useEditing({
    ...{ of, toValues: toUpstreamValues, read: () => readUpstream(id), subject: id },
    // Another owner may have stored one.
    asksAgain: ({ credential }) => credential !== 'kept',
    // A credential belongs to one provider and URL.
    groups: [['preset', 'base_url', 'credential', 'api_key']],
  })
  const upstream = editing.base.value
  return (
    <PlannedDialog
      title={`Edit ${id}`}
      initial={{ ...toUpstreamValues(upstream), ...(named('edit') === 'api_key' && { credential: 'typed' }) }}
      editing={editing}
      send={(values, isPlan) => editUpstream(editing.base.value, values, isPlan)}
      fields={(form) => <UpstreamFields form={form} before={upstream} />}
      warn={(values) => losesCredential(values, upstream) && <Moving of={upstream} />}
      apply="Save changes"
      done={`Saved ${id}.`}
      onClose={onClose}
    />
  )
}

/** @param onGone called after the removal. */
function RemoveUpstream({ of, onClose, onGone }: ChangeProps & { onGone(): void }) {
  const { id } = of
  const editing = useEditing({ of, read: () => readUpstream(id), subject: id })
  return (
    <PlannedDialog
      title={`Remove ${id}`}
      initial={{}}
      editing={editing}
      send={(_, isPlan) => deleteUpstream(editing.base.value, isPlan)}
      fields={() => (
        <p>
          Removes its credential and all routes to it. Request history is kept. To keep it for later, disable it
          instead.
        </p>
      )}
      apply={`Remove ${id}`}
      kind="bad"
      done={`Removed ${id}.`}
      onClose={onClose}
      onDone={onGone}
    />
  )
}
